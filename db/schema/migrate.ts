import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { closeClient, connectAs, patient, StoreError, type Store } from '#db/postgres/connect.ts';
import { awaitMigrationTurn } from '#db/schema/migration-turn.ts';
import { appliedMigrations, BOOKKEEPING_SCHEMA, cannotMigrate } from '#db/schema/migrations-applied.ts';
import { ownsSchema } from '#db/postgres/service-login.ts';

export const MIGRATIONS_FOLDER = path.join(import.meta.dirname, '../migrations');

/**
 * Brings the database up to this version, forward only, all missing migrations in one transaction.
 * Any number of starters may do so at once: one migrates, the others wait for it. A login that
 * does not own the database only looks whether all of them are there.
 * @param folder holds the numbered .sql files.
 * @returns the names of the migrations that this call applied.
 * @throws {StoreError} naming the migration that failed, and where; nothing is applied then.
 */
export async function migrate(store: Store, folder: string = MIGRATIONS_FOLDER): Promise<string[]> {
  const client = await connectAs(patient(store), 'owner', MIGRATION_TIMEOUT_MS).catch((error: Error) => {
    throw cannotMigrate(error);
  });
  try {
    const names = await migrationNames(folder);
    const isOwner = await ownsSchema(client, BOOKKEEPING_SCHEMA);
    if (isOwner) await awaitMigrationTurn(client);
    const applied = await appliedMigrations(client);
    if (!isOwner) return checkMigrated(applied, names);
    if (applied.join() === names.join()) return [];
    // The library that applies them is larger than the rest of a command, and hardly ever needed.
    const { applyMigrations } = await import('#db/schema/migrator.ts');
    return await applyMigrations(client, folder, names);
  } catch (error) {
    throw error instanceof StoreError ? error : cannotMigrate(error as Error);
  } finally {
    await closeClient(client);
  }
}

/** The migrations of this version, in their order. */
export async function migrationNames(folder: string = MIGRATIONS_FOLDER): Promise<string[]> {
  const files = await readdir(folder);
  return files
    .filter((name) => /^\d{4}_.+\.sql$/.test(name))
    .map((name) => path.basename(name, '.sql'))
    .toSorted();
}

function checkMigrated(applied: readonly string[], expected: readonly string[]): [] {
  const [missing] = expected.filter((name) => !applied.includes(name));
  const [unknown] = applied.filter((name) => !expected.includes(name));
  if (missing !== undefined) {
    throw new StoreError(
      `the database lacks ${missing}, and this login may not migrate it: run "npm run migrate" with its owner's DATABASE_URL`,
    );
  }
  if (unknown !== undefined)
    throw new StoreError(`the database was migrated by a newer version (${unknown}): run that one`);
  return [];
}

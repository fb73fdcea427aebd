import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Migrator, type Migration } from 'kysely/migration';
import type { Client, DatabaseError } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { BOOKKEEPING_SCHEMA, cannotMigrate } from '#db/schema/migrations-applied.ts';

/**
 * Applies what a database lacks, all of it in one transaction.
 * @param client has its turn, and stays open.
 * @param names the migrations of this version, in order; each is a file in the folder.
 * @returns the names of those that this call applied.
 * @throws {StoreError} naming the migration that failed, and where; nothing is applied then.
 */
export async function applyMigrations(
  client: Client,
  folder: string,
  names: readonly string[],
): Promise<string[]> {
  // Kysely takes a pool. This one is of a single connection, which is its caller's to end.
  const connection = Object.assign(client, { release: () => undefined });
  const pool = { connect: async () => connection, end: async () => undefined, options: {} };
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  try {
    const migrator = new Migrator({
      db,
      provider: { getMigrations: () => readMigrations(folder, names) },
      migrationTableSchema: BOOKKEEPING_SCHEMA,
    });
    const { error, results = [] } = await migrator.migrateToLatest();
    const failed = results.find((result) => result.status === 'Error')?.migrationName;
    if (error !== undefined) throw await explain(error as Error, folder, failed);
    return results.map((result) => result.migrationName);
  } finally {
    await db.destroy();
  }
}

async function readMigrations(folder: string, names: readonly string[]): Promise<Record<string, Migration>> {
  const migrations: Record<string, Migration> = {};
  for (const name of names) {
    const text = await readFile(path.join(folder, `${name}.sql`), 'utf8');
    // Without parameters pg sends the text as one simple query, which may hold many statements.
    migrations[name] = { up: async (db) => void (await sql.raw(text).execute(db)) };
  }
  return migrations;
}

async function explain(error: Error, folder: string, failed: string | undefined): Promise<StoreError> {
  if (failed === undefined) return cannotMigrate(error);
  const position = Number((error as DatabaseError).position);
  const text = await readFile(path.join(folder, `${failed}.sql`), 'utf8');
  const place = position > 0 ? `, line ${text.slice(0, position).split('\n').length}` : '';
  return new StoreError(`migration ${failed} failed${place}: ${error.message}`, { cause: error });
}

import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { Kysely, PostgresDialect, sql } from 'kysely';
import { Migrator, type Migration } from 'kysely/migration';
import { Client, type DatabaseError } from 'pg';
import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { closeClient, StoreError, withTimeout, type Store } from '#db/connect.ts';
import { awaitMigrationTurn } from '#db/migration-turn.ts';
import { ownsSchema } from '#db/service-login.ts';

const FOLDER = path.join(import.meta.dirname, 'migrations');

/** The bookkeeping has a schema of its own: the first migration is what creates `daybook`. */
const BOOKKEEPING_SCHEMA = 'daybook_migrations';

/**
 * Brings the database up to this version, forward only, all missing migrations in one transaction.
 * Any number of starters may do so at once: one migrates, the others wait for it. A login that
 * does not own the database only looks whether all of them are there.
 * @param folder holds the numbered .sql files.
 * @returns the names of the migrations that this call applied.
 * @throws {StoreError} naming the migration that failed, and where; nothing is applied then.
 */
export async function migrate(store: Store, folder: string = FOLDER): Promise<string[]> {
  const client = new Client(withTimeout(store.config('owner'), MIGRATION_TIMEOUT_MS));
  // A server that dies meanwhile fails the running query; the connection's own report adds nothing.
  client.on('error', () => undefined);
  await client.connect().catch((error: Error) => {
    throw cannotMigrate(error);
  });
  if (!(await ownsSchema(client, BOOKKEEPING_SCHEMA))) {
    try {
      return await checkMigrated(client, folder);
    } finally {
      await closeClient(client);
    }
  }
  // Kysely takes a pool. One of a single connection needs none of pg's, whose end waits for a frozen server.
  const connection = Object.assign(client, { release: () => undefined });
  const pool = { connect: async () => connection, end: () => closeClient(client), options: {} };
  const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool }) });
  try {
    await awaitMigrationTurn(client).catch((error: Error) => {
      throw cannotMigrate(error);
    });
    const migrator = new Migrator({
      db,
      provider: { getMigrations: () => readMigrations(folder) },
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

async function checkMigrated(client: Client, folder: string): Promise<[]> {
  const expected = Object.keys(await readMigrations(folder));
  const { rows } = await client.query<{ name: string }>(`select name from ${BOOKKEEPING_SCHEMA}.kysely_migration`).catch((error: Error) => {
    throw cannotMigrate(error);
  });
  const applied = rows.map(({ name }) => name);
  const [missing] = expected.filter((name) => !applied.includes(name));
  const [unknown] = applied.filter((name) => !expected.includes(name));
  if (missing !== undefined) {
    throw new StoreError(`the database lacks ${missing}, and this login may not migrate it: run "npm run migrate" with its owner's DATABASE_URL`);
  }
  if (unknown !== undefined) throw new StoreError(`the database was migrated by a newer version (${unknown}): run that one`);
  return [];
}

async function readMigrations(folder: string): Promise<Record<string, Migration>> {
  const files = (await readdir(folder)).filter((name) => /^\d{4}_.+\.sql$/.test(name)).toSorted();
  const migrations: Record<string, Migration> = {};
  for (const file of files) {
    const text = await readFile(path.join(folder, file), 'utf8');
    // Without parameters pg sends the text as one simple query, which may hold many statements.
    migrations[path.basename(file, '.sql')] = { up: async (db) => void (await sql.raw(text).execute(db)) };
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

function cannotMigrate(error: Error): StoreError {
  return new StoreError(`the database cannot be migrated: ${error.message}`, { cause: error });
}

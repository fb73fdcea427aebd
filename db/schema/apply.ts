import path from 'node:path';
import { type ClientBase, DatabaseError } from 'pg';
import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { holdLock, LOCK_SCHEMA } from '#db/postgres/locks.ts';
import { byVersion, migrationNames, type Schema, type SqlFile } from '#db/schema/files.ts';

type Queryable = Pick<ClientBase, 'query'>;

export const BOOKKEEPING_SCHEMA = 'daybook_migrations';

/** The state of a database: its migrations, oldest first, and its reappliable files by name. */
export type AppliedSchema = {
  migrations: string[];
  /** Digests by name. */
  definitions: Map<string, string>;
  /** The newest version that has migrated it, and the release before that one. */
  newest: { version: string; previous: string | null };
};

/**
 * Waits until no other session migrates, be it our tables or the job queue's: reading the catalog fails while
 * another session renames its objects. The lock is released with the connection. Other sessions may migrate
 * for up to MIGRATION_TIMEOUT_MS, whatever the lock_timeout of this session is.
 */
export async function awaitMigrationTurn(client: ClientBase): Promise<void> {
  await createMigrationLock(client);
  await holdLock(client, 'migration', MIGRATION_TIMEOUT_MS);
}

/** The one lock that a database needs before it has a schema. */
async function createMigrationLock(client: Queryable): Promise<void> {
  const { rows } = await client.query<{ exists: boolean }>(
    `select to_regclass('${LOCK_SCHEMA}.migration') is not null as exists`,
  );
  if (rows[0]?.exists === true) return;
  try {
    await client.query(
      `create schema if not exists ${LOCK_SCHEMA}; create table if not exists ${LOCK_SCHEMA}.migration ()`,
    );
  } catch (error) {
    // "If not exists" does not wait for a concurrent starter that is creating the same.
    if (!(error instanceof DatabaseError) || !CREATED_MEANWHILE.has(error.code ?? '')) throw error;
  }
}

/** unique_violation, duplicate_schema, duplicate_table. */
const CREATED_MEANWHILE = new Set(['23505', '42P06', '42P07']);

/** @returns the applied part of the schema; null for an empty database. */
export async function readApplied(client: Queryable): Promise<AppliedSchema | null> {
  const { rows } = await client.query<{ exists: boolean }>(
    `select to_regclass('${BOOKKEEPING_SCHEMA}.migration') is not null as exists`,
  );
  if (rows[0]?.exists !== true) return null;
  const migrations = await client.query<{ name: string }>(
    `select name from ${BOOKKEEPING_SCHEMA}.migration order by name`,
  );
  const definitions = await client.query<{ name: string; digest: string }>(
    `select name, digest from ${BOOKKEEPING_SCHEMA}.definition`,
  );
  const releases = await client.query<{ version: string; previous: string | null }>(
    `select version, previous from ${BOOKKEEPING_SCHEMA}.release`,
  );
  return {
    migrations: migrations.rows.map(({ name }) => name),
    definitions: new Map(definitions.rows.map(({ name, digest }) => [name, digest])),
    newest: releases.rows.reduce((a, b) => (byVersion(a.version, b.version) < 0 ? b : a), UNRELEASED),
  };
}

const UNRELEASED = { version: '0.0.0', previous: null };

/**
 * Compares the version of a database with this one. The next release serves beside this version, so its
 * database is accepted and must not be changed: its functions replace those of this version.
 * @returns whether the database is one release ahead.
 * @throws {StoreError} if it is further ahead, or has migrations that this version should know.
 */
export function isOneReleaseAhead(schema: Schema, { newest, migrations }: AppliedSchema): boolean {
  const isAhead = byVersion(newest.version, schema.version) > 0;
  if (isAhead && newest.previous !== null && byVersion(newest.previous, schema.version) <= 0) return true;
  const unknown = migrations.find((name) => !migrationNames(schema).includes(name));
  const reason = isAhead ? newest.version : unknown;
  if (reason !== undefined)
    throw new StoreError(
      `the database was migrated by a newer version (${reason}), which does not serve beside this one ` +
        `(${schema.version}): run ${newest.previous ?? 'that version'} or newer`,
    );
  return false;
}

/** @throws {StoreError} if a newer version has migrated this database: this one doesn't know its schema. */
export function requireNotNewer(schema: Schema, applied: AppliedSchema): void {
  if (isOneReleaseAhead(schema, applied))
    throw new StoreError(
      `the database was migrated by a newer version (${applied.newest.version}): run that one`,
    );
}

/** The names of the migrations and files that a database lacks, in the order in which they are applied. */
export function missingFrom(schema: Schema, applied: AppliedSchema): string[] {
  const missing = migrationNames(schema).filter((name) => !applied.migrations.includes(name));
  const changed = [...schema.functions, schema.privileges].filter(
    ({ name, digest }) => applied.definitions.get(name) !== digest,
  );
  return [...missing, ...changed.map(({ name }) => name)];
}

/**
 * Gives an empty database the schema in which `migration` was the newest one, in one transaction: today's, or
 * that of an earlier release.
 * @param client has its turn.
 * @throws {StoreError} naming the file and line that failed, or the migration that no release ended with.
 */
export async function createSchema(client: Queryable, schema: Schema, migration: string): Promise<void> {
  if (migration === migrationNames(schema).at(-1)) {
    return inTransaction(client, async () => {
      for (const file of [
        schema.roles,
        ...schema.tables,
        ...schema.functions,
        schema.privileges,
        schema.initial,
      ])
        await applyFile(client, file);
      await recordMigrations(client, migrationNames(schema));
      await recordDefinitions(client, schema, [...schema.functions, schema.privileges]);
      await recordRelease(client, schema);
    });
  }
  const release = schema.released.findLast((each) => each.migration === migration);
  if (release === undefined)
    throw new StoreError(`no release of Daybook ended with the migration ${migration}`);
  await inTransaction(client, async () => {
    await applyFile(client, schema.roles);
    await applyFile(client, release.file);
  });
}

/**
 * Upgrades a database that has a schema, in one transaction: missing migrations, then changed functions, then
 * privileges, which cover new objects too.
 * @param client has its turn.
 * @returns the names that it applied.
 * @throws {StoreError} naming the file and line that failed; nothing is applied then.
 */
export async function upgradeSchema(
  client: Queryable,
  schema: Schema,
  applied: AppliedSchema,
): Promise<string[]> {
  const missing = new Set(missingFrom(schema, applied));
  if (missing.size === 0) {
    // A release that changes nothing in the database still moves the window of versions that serve together.
    if (applied.newest.version !== schema.version) await recordRelease(client, schema);
    return [];
  }
  const migrations = schema.migrations.filter(({ name }) => missing.has(path.basename(name)));
  const definitions = [...schema.functions.filter(({ name }) => missing.has(name)), schema.privileges];
  await inTransaction(client, async () => {
    for (const file of [...migrations, ...definitions]) await applyFile(client, file);
    await recordMigrations(client, migrationNames(schema));
    await recordDefinitions(client, schema, definitions);
    await recordRelease(client, schema);
  });
  return [...missing];
}

/** The error of a starter whose database can't be brought up to this version. */
export function cannotMigrate(error: Error): StoreError {
  return new StoreError(`the database cannot be migrated: ${error.message}`, { cause: error });
}

async function inTransaction(client: Queryable, work: () => Promise<void>): Promise<void> {
  await client.query('begin');
  try {
    await work();
    await client.query('commit');
  } catch (error) {
    // A session that is gone has rolled back.
    await client.query('rollback').catch(() => undefined);
    throw error;
  }
}

/** Without parameters pg sends the text as one simple query, which may hold many statements. */
async function applyFile(client: Queryable, { name, text }: SqlFile): Promise<void> {
  try {
    await client.query(text);
  } catch (error) {
    const position = Number((error as DatabaseError).position);
    const line = position > 0 ? `, line ${text.slice(0, position).split('\n').length}` : '';
    throw new StoreError(`migration failed in ${name}.sql${line}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

async function recordMigrations(client: Queryable, names: readonly string[]): Promise<void> {
  await client.query(
    `insert into ${BOOKKEEPING_SCHEMA}.migration (name) select unnest($1::text[]) on conflict do nothing`,
    [names],
  );
}

async function recordDefinitions(
  client: Queryable,
  { version }: Schema,
  files: readonly SqlFile[],
): Promise<void> {
  await client.query(
    `insert into ${BOOKKEEPING_SCHEMA}.definition as d (name, digest, version)
      select name, digest, $3 from unnest($1::text[], $2::text[]) as f(name, digest)
      on conflict (name) do update set digest = excluded.digest, version = excluded.version,
        applied_at = clock_timestamp()
      where d.digest <> excluded.digest`,
    [files.map(({ name }) => name), files.map(({ digest }) => digest), version],
  );
}

async function recordRelease(client: Queryable, { version, previous }: Schema): Promise<void> {
  await client.query(
    `insert into ${BOOKKEEPING_SCHEMA}.release (version, previous) values ($1, $2) on conflict do nothing`,
    [version, previous],
  );
}

import { sql } from 'kysely';
import type { Client } from 'pg';
import { connectBatch } from '#db/backup/connect.ts';
import { copyIn, digestOf } from '#db/backup/copy.ts';
import { BackupDamageError, readFile } from '#db/backup/file.ts';
import { fileOf, type Manifest, readManifest } from '#db/backup/manifest.ts';
import {
  copyInSql,
  copyOutSql,
  describeTables,
  PROJECTION_TABLES,
  BASE_TABLES,
  roleFor,
  SESSION_FORMAT,
} from '#db/backup/tables.ts';
import { finalizeRestore, type FinalizedRestore } from '#db/backup/finalize-restore.ts';
import { verifyFiles } from '#db/backup/verify.ts';
import { closeClient, StoreError, type Store } from '#db/postgres/connect.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { SHARD } from '#db/log/append.ts';
import { partitionsOf } from '#db/schema/catalog.ts';
import { awaitMigrationTurn, createSchema, readApplied, upgradeSchema } from '#db/schema/apply.ts';
import { db, onlyRowOf, rowsOf } from '#db/schema/query.ts';
import { migrationNames, readSchema, type Schema, SCHEMA_FOLDER } from '#db/schema/files.ts';

/** The session must survive a slow disk between two tables. */
const IDLE_TIMEOUT_MS = 600_000;

export type RestoreOptions = {
  /** An empty database. */
  store: Store;
  directory: string;
  /** Whether to restore a log that does not match its hash chain. */
  evenDamaged: boolean;
  signal?: AbortSignal;
  /** Has the layout of db/schema. */
  schemaFolder?: string;
};

/** The restored backup, and the work in progress that was ended. */
export type Restored = FinalizedRestore & { manifest: Manifest };

/**
 * Restores a backup in one transaction. The backup is verified first, and each table is read back and
 * compared with its file before the commit. Servers that start in the meantime wait. The projections are not
 * rebuilt here: see `db/backup/projections.ts`.
 * @throws {BackupDamageError} when the backup is damaged.
 * @throws {StoreError} when the database is not empty, or has an incompatible version.
 */
export async function restoreBackup({
  store,
  directory,
  evenDamaged,
  signal,
  schemaFolder = SCHEMA_FOLDER,
}: RestoreOptions): Promise<Restored> {
  const manifest = await readManifest(directory);
  const schema = await readSchema(schemaFolder);
  const client = await connectBatch(store, 'owner');
  try {
    await awaitMigrationTurn(client);
    await requireCompatible(client, schema, manifest.migration);
    const damage = await verifyFiles(directory, manifest, signal);
    if (damage !== null && !evenDamaged) {
      throw new BackupDamageError(
        `the log in the backup is damaged at position ${damage.position}: ${damage.problem}. Take ` +
          'another backup, or add --even-damaged',
      );
    }
    // The schema of the version that the backup is of; later migrations change the restored rows afterwards.
    if ((await readApplied(client)) === null) await createSchema(client, schema, manifest.migration);
    await client.query(
      `begin; set local idle_in_transaction_session_timeout = ${IDLE_TIMEOUT_MS}; ${SESSION_FORMAT}`,
    );
    let finalized: FinalizedRestore;
    try {
      await load(client, directory, manifest, signal);
      // The next statements scan the log, and need statistics for it.
      await client.query(
        'reset enable_sort; ' +
          `analyze ${(await describeTables(client, BASE_TABLES)).map(({ name }) => name).join(', ')}`,
      );
      finalized = await finalizeRestore(client, fileOf(manifest, 'projection.request') !== undefined);
      await client.query('commit');
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error;
    }
    const applied = await readApplied(client);
    if (applied !== null) await upgradeSchema(client, schema, applied);
    return { manifest, ...finalized };
  } finally {
    await closeClient(client);
  }
}

/** Checks that the database is empty and not newer than the backup. */
async function requireCompatible(client: Client, schema: Schema, migration: string): Promise<void> {
  const known = migrationNames(schema);
  if (!known.includes(migration))
    throw new StoreError(
      `the backup was made by a newer version (${migration}): restore it with that version`,
    );
  const newest = (await readApplied(client))?.migrations.at(-1);
  if (newest === undefined) return;
  await requireEmpty(client);
  if (newest !== migration) {
    throw new StoreError(
      `the backup has another schema version (${migration}) than this database (${newest}): ` +
        'restore into a new database',
    );
  }
}

async function requireEmpty(client: Client): Promise<void> {
  const { position } = await onlyRowOf(
    client,
    db
      .selectFrom('daybook.log_batch')
      .select(sql<string | null>`max(last_position)`.as('position'))
      .where('shard', '=', SHARD),
  );
  if (position !== null)
    throw new StoreError(
      `this database already has a log, up to position ${position}: restore into a new database, or a ` +
        'DAYBOOK_DATA that does not exist yet',
    );
}

async function load(
  client: Client,
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<void> {
  const names = [...BASE_TABLES, ...PROJECTION_TABLES];
  const unknown = manifest.files.find(({ table }) => !names.includes(table));
  if (unknown !== undefined)
    throw new StoreError(
      `this version does not know the table ${unknown.table} of the backup: restore it with the ` +
        'version that took it',
    );
  // Blocks appends until the commit, by any process on this database.
  await client.query(takeLock('log'));
  await client.query(takeLock('partitions'));
  await requireEmpty(client);
  await dropPartitions(client);
  // Rows inserted by a migration are in the backup as well.
  const present = await describeTables(client, BASE_TABLES);
  for (const { name } of present.toReversed()) await client.query(`delete from ${name}`);
  for (const table of await describeTables(client, names)) {
    const file = fileOf(manifest, table.name);
    if (file === undefined) continue;
    signal?.throwIfAborted();
    const loaded = { ...table, columns: file.columns };
    await client.query(roleFor(table.name));
    let expected = '';
    await copyIn(
      client,
      copyInSql(loaded),
      readFile(directory, file, (digest) => (expected = digest)),
    );
    // Read back, since a failing disk can lose data that it accepted.
    if ((await digestOf(client, copyOutSql(loaded))) !== expected)
      throw new BackupDamageError(`${table.name} differs from the backup after loading: check the disk`);
    if (table.name === 'daybook.log_partition') await makePartitions(client, manifest.partitions);
  }
  await client.query('reset role');
}

async function dropPartitions(client: Client): Promise<void> {
  for (const { name } of await rowsOf(client, partitionsOf('daybook.log'))) {
    const table = `daybook.${client.escapeIdentifier(name)}`;
    await client.query(`alter table daybook.log detach partition ${table}; drop table ${table}`);
  }
}

/** Creates the partitions of the log, with their triggers. */
async function makePartitions(client: Client, numbers: readonly number[]): Promise<void> {
  const partitions = db
    .selectFrom('daybook.log_partition')
    .select(['number', 'name', 'archived_at'])
    .where(({ eb, fn }) => eb('number', '=', fn.any(sql.val(numbers))))
    .orderBy('number');
  for (const { number, name, archived_at } of await rowsOf(client, partitions)) {
    const table = `daybook.${client.escapeIdentifier(name)}`;
    await client.query(`create table ${table} (like daybook.log including all)`);
    await client.query('select daybook.attach_partition($1, $2)', [number, name]);
    // The trigger that daybook.record_archived creates, which stays when the partition is detached.
    if (archived_at !== null)
      await client.query(
        `create trigger append_only_alone before update or delete
          on ${table} for each row execute function daybook.refuse_change()`,
      );
  }
}

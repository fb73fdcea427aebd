import type { Client } from 'pg';
import { copyIn, digestOf } from '#db/backup/copy.ts';
import { BackupDamageError, readFile } from '#db/backup/file.ts';
import { fileOf, type Manifest, readManifest } from '#db/backup/manifest.ts';
import {
  copyInSql,
  copyOutSql,
  describeTables,
  FIGURES,
  KEPT,
  roleFor,
  SPELLING,
} from '#db/backup/tables.ts';
import { finalizeRestore, type TakenUp } from '#db/backup/finalize-restore.ts';
import { verifyFiles } from '#db/backup/verify.ts';
import { closeClient, connectAs, patient, StoreError, type Store } from '#db/postgres/connect.ts';
import { LOCKS } from '#db/postgres/locks.ts';
import { SHARD } from '#db/log/append.ts';
import { awaitMigrationTurn, createSchema, readApplied, upgradeSchema } from '#db/schema/apply.ts';
import { migrationNames, readSchema, type Schema, SCHEMA_FOLDER } from '#db/schema/files.ts';

/**
 * Loading the log is one statement: a day is longer than any disk takes that one would want to restore from.
 */
export const BACKUP_STATEMENT_TIMEOUT_MS = 24 * 60 * 60 * 1_000;

/** Between two tables a session may have to wait for a slow disk. */
const IDLE_TIMEOUT_MS = 600_000;

export type RestoreOptions = {
  /** A database that is empty. */
  store: Store;
  directory: string;
  /** Whether a log is loaded that does not agree with its chain. */
  evenDamaged: boolean;
  signal?: AbortSignal;
  /** Has the layout of db/schema. */
  schemaFolder?: string;
};

/** What was loaded, and what became of what was open at the time of the backup. */
export type Restored = TakenUp & { manifest: Manifest };

/**
 * Loads a backup, all of it or nothing: it is checked before, each table is read back and compared to
 * the letter, and only then is it there. Servers that start meanwhile wait until it is. The figures are
 * not made here: see `db/backup/figures.ts`.
 * @throws {BackupDamageError} when the backup is not sound.
 * @throws {StoreError} when the database is not empty, or of another version.
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
  const client = await connectAs(patient(store), 'owner', BACKUP_STATEMENT_TIMEOUT_MS);
  try {
    await awaitMigrationTurn(client);
    await requireFit(client, schema, manifest.migration);
    const damage = await verifyFiles(directory, manifest, signal);
    if (damage !== null && !evenDamaged) {
      throw new BackupDamageError(
        `the log in the backup is damaged at position ${damage.position}: ${damage.problem}. Take another backup, or add --even-damaged`,
      );
    }
    // The schema of the version that the backup is of; later migrations change the restored rows afterwards.
    if ((await readApplied(client)) === null) await createSchema(client, schema, manifest.migration);
    await client.query(
      `begin; set local idle_in_transaction_session_timeout = ${IDLE_TIMEOUT_MS}; ${SPELLING}`,
    );
    let takenUp: TakenUp;
    try {
      await load(client, directory, manifest, signal);
      // What comes next looks through the log, which Postgres has to know the size of for that.
      await client.query(
        `reset enable_sort; analyze ${(await describeTables(client, KEPT)).map(({ name }) => name).join(', ')}`,
      );
      takenUp = await finalizeRestore(client, fileOf(manifest, 'projection.request') !== undefined);
      await client.query('commit');
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error;
    }
    const applied = await readApplied(client);
    if (applied !== null) await upgradeSchema(client, schema, applied);
    return { manifest, ...takenUp };
  } finally {
    await closeClient(client);
  }
}

/** That the backup can be loaded here: there is nothing yet, and nothing that is newer than it. */
async function requireFit(client: Client, schema: Schema, migration: string): Promise<void> {
  const known = migrationNames(schema);
  if (!known.includes(migration))
    throw new StoreError(`the backup was made by a newer version (${migration}): restore it with that one`);
  const newest = (await readApplied(client))?.migrations.at(-1);
  if (newest === undefined) return;
  await requireEmpty(client);
  if (newest !== migration) {
    throw new StoreError(
      `the backup is of another version (${migration}) than this database (${newest}): ` +
        'restore into a fresh one',
    );
  }
}

async function requireEmpty(client: Client): Promise<void> {
  const { rows } = await client.query<{ position: string | null }>(
    'select max(last_position) as position from daybook.log_batch where shard = $1',
    [SHARD],
  );
  const position = rows[0]?.position ?? null;
  if (position !== null)
    throw new StoreError(
      `this database holds a log already, up to position ${position}: restore into a fresh one, or a DAYBOOK_DATA that is not there yet`,
    );
}

async function load(
  client: Client,
  directory: string,
  manifest: Manifest,
  signal?: AbortSignal,
): Promise<void> {
  const names = [...KEPT, ...FIGURES];
  const stranger = manifest.files.find(({ table }) => !names.includes(table));
  if (stranger !== undefined)
    throw new StoreError(
      `the backup holds ${stranger.table}, which this version does not know: restore it with the one that made it`,
    );
  // Nobody appends before all is there, whatever has come to run on this database.
  await client.query(`select pg_advisory_xact_lock(19, ${SHARD})`);
  await client.query(`select pg_advisory_xact_lock(${LOCKS.partitions})`);
  await requireEmpty(client);
  await dropPartitions(client);
  // What a migration has put there is in the backup as well.
  const present = await describeTables(client, KEPT);
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
    // What the disk gave once it may not have kept: it is read back as it was copied.
    if ((await digestOf(client, copyOutSql(loaded))) !== expected)
      throw new BackupDamageError(`${table.name} was not loaded as it is in the backup: is the disk sound?`);
    if (table.name === 'daybook.log_partition') await makePartitions(client, manifest.partitions);
  }
  await client.query('reset role');
}

async function dropPartitions(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    "select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = 'daybook.log'::regclass",
  );
  for (const { name } of rows) {
    const table = `daybook.${client.escapeIdentifier(name)}`;
    await client.query(`alter table daybook.log detach partition ${table}; drop table ${table}`);
  }
}

/** The partitions that the log had, with all that protects them. */
async function makePartitions(client: Client, numbers: readonly number[]): Promise<void> {
  const { rows } = await client.query<{ number: number; name: string; is_archived: boolean }>(
    'select number, name, archived_at is not null as is_archived from daybook.log_partition where number = any($1) order by number',
    [numbers],
  );
  for (const { number, name, is_archived } of rows) {
    const table = `daybook.${client.escapeIdentifier(name)}`;
    await client.query(`create table ${table} (like daybook.log including all)`);
    await client.query('select daybook.attach_partition($1, $2)', [number, name]);
    // As daybook.keep_partition leaves it: these stay when it is detached.
    if (is_archived)
      await client.query(
        `create trigger append_only_alone before update or delete on ${table} for each row execute function daybook.refuse_change()`,
      );
  }
}

import { mkdir, open, rename, rm, stat, writeFile as write } from 'node:fs/promises';
import path from 'node:path';
import { sql } from 'kysely';
import { type Client, DatabaseError } from 'pg';
import { connectBatch } from '#db/backup/connect.ts';
import { copyOut } from '#db/backup/copy.ts';
import { writeFile } from '#db/backup/file.ts';
import { type Manifest, MANIFEST_FILE, type TableFile } from '#db/backup/manifest.ts';
import {
  copyOutSql,
  describeTables,
  PROJECTION_TABLES,
  BASE_TABLES,
  roleFor,
  SESSION_FORMAT,
  type Table,
} from '#db/backup/tables.ts';
import { verifyFiles } from '#db/backup/verify.ts';
import { closeClient, type Store, StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { firstPosition } from '#db/log/read.ts';
import { readApplied, requireNotNewer } from '#db/schema/apply.ts';
import { db, onlyRowOf, rowOf } from '#db/schema/query.ts';
import { selectNewestCheckpoint } from '#db/tlog/checkpoint-store.ts';
import { readSchema } from '#db/schema/files.ts';

/** Files are flushed to disk between two tables, and the session must survive a slow disk. */
const IDLE_TIMEOUT_MS = 600_000;

/** The suffix of files from an interrupted run. */
const PARTIAL = '.partial';

const INSUFFICIENT_PRIVILEGE = '42501';

export type BackupOptions = {
  store: Store;
  /** The target directory, which must not exist. */
  directory: string;
  /** Interrupts the backup; its files are removed. */
  signal?: AbortSignal;
};

/**
 * Takes an online backup: all tables in one snapshot. The files are then read back from disk, and the log in
 * them is verified event by event. The directory appears under its name only when the backup is complete.
 * @returns the manifest. Its `damage` is the first position at which the log does not match its hash chain;
 * the backup is complete in that case, too.
 * @throws {StoreError} when the backup fails, with a message for the operator.
 */
export async function takeBackup({ store, directory, signal }: BackupOptions): Promise<Manifest> {
  const target = path.resolve(directory);
  const partial = `${target}${PARTIAL}`;
  if (await stat(target).catch(() => null))
    throw new StoreError(`${target} already exists: name a directory that does not`);
  try {
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { recursive: true, mode: 0o700 });
    const copied = await copyTables(store, partial, signal);
    const damage = await verifyFiles(partial, copied, signal);
    const manifest: Manifest = { ...copied, damage, finished_at: new Date().toISOString() };
    await write(path.join(partial, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`, {
      mode: 0o600,
      flush: true,
    });
    await syncDirectory(partial);
    await rename(partial, target);
    await syncDirectory(path.dirname(target));
    return manifest;
  } catch (error) {
    // An attempt that failed on a full disk must not leave it full.
    await rm(partial, { recursive: true, force: true }).catch(() => undefined);
    if (signal?.aborted === true)
      throw new StoreError('the backup was interrupted; its files were removed', { cause: error });
    throw explainError(error as Error, target);
  }
}

async function copyTables(store: Store, partial: string, signal?: AbortSignal): Promise<Manifest> {
  // Only the owner can read everything.
  const client = await connectBatch(store, 'owner');
  // Also a statement that waits for a lock ends then.
  const interrupt = (): void => void client.end().catch(() => undefined);
  signal?.addEventListener('abort', interrupt, { once: true });
  try {
    signal?.throwIfAborted();
    const migration = await requireKnownSchema(client);
    const included = (await hasFullLog(client)) ? BASE_TABLES : [...BASE_TABLES, ...PROJECTION_TABLES];
    const names = (await describeTables(client, included)).map(({ name }) => name);
    await client.query(
      `begin isolation level repeatable read read only; set local idle_in_transaction_session_timeout =
        ${IDLE_TIMEOUT_MS}`,
    );
    // Locked before the snapshot is taken: a table that was replaced after the snapshot would appear empty.
    for (const name of names) await client.query(`${roleFor(name)}; lock table ${name} in access share mode`);
    await client.query(`reset role; ${SESSION_FORMAT}`);
    const facts = await readFacts(client);
    if (included === BASE_TABLES && !(await hasFullLog(client)))
      throw new StoreError('a partition of the log was archived during the backup: retry');
    const tables = await describeTables(client, names);
    const files: TableFile[] = [];
    for (const table of tables) files.push(await copyTable(client, table, partial, signal));
    await client.query('rollback');
    return {
      backup: 'daybook backup 1',
      migration,
      ...facts,
      damage: null,
      files,
      finished_at: facts.taken_at,
    };
  } finally {
    signal?.removeEventListener('abort', interrupt);
    await closeClient(client);
  }
}

/**
 * The newest migration applied to the database.
 * @throws {StoreError} when this version can't back up that schema.
 */
async function requireKnownSchema(client: Client): Promise<string> {
  const applied = await readApplied(client);
  const newest = applied?.migrations.at(-1);
  if (applied === null || newest === undefined)
    throw new StoreError('this database has no Daybook schema: there is nothing to back up');
  requireNotNewer(await readSchema(), applied);
  return newest;
}

/**
 * Whether no part of the log is archived. Otherwise the projections can't be rebuilt, so they are included.
 */
async function hasFullLog(client: Client): Promise<boolean> {
  return (await firstPosition(client)) === 1;
}

type BackupFacts = Omit<Manifest, 'backup' | 'migration' | 'damage' | 'files' | 'finished_at'>;

const UTC = sql.lit('YYYY-MM-DD"T"HH24:MI:SS.US"Z"');

async function readFacts(client: Client): Promise<BackupFacts> {
  const newest = db
    .selectFrom('daybook.log_batch')
    .selectAll()
    .where('shard', '=', SHARD)
    .orderBy('last_position', 'desc')
    .limit(1);
  const { log_id, postgres, partitions, taken_at, last_position, at, chain } = await onlyRowOf(
    client,
    db
      .selectFrom('daybook.install as i')
      .leftJoin(newest.as('b'), (join) => join.onTrue())
      .select(['i.log_id', 'b.last_position', 'b.chain'])
      .select([
        sql<string>`current_setting('server_version')`.as('postgres'),
        sql<string>`to_char(clock_timestamp(), ${UTC})`.as('taken_at'),
        sql<number[]>`array(select number from daybook.log_partition where daybook.is_attached(name)
          order by number)`.as('partitions'),
        sql<string | null>`to_char(b.at, ${UTC})`.as('at'),
      ]),
  );
  const head =
    last_position === null || at === null || chain === null
      ? null
      : { position: Number(last_position), at, chain: chain.toString('hex') };
  return { log_id, postgres, head, checkpoint: await readCheckpoint(client), partitions, taken_at };
}

async function readCheckpoint(client: Client): Promise<string | null> {
  const [table] = await describeTables(client, ['daybook.checkpoint']);
  if (table === undefined) return null;
  return (await rowOf(client, selectNewestCheckpoint().select('note')))?.note ?? null;
}

async function copyTable(
  client: Client,
  table: Table,
  directory: string,
  signal?: AbortSignal,
): Promise<TableFile> {
  await client.query(roleFor(table.name));
  const text = copyOut(client, copyOutSql(table));
  const file = `${table.name}.copy.zst`;
  const stored = await writeFile(text, path.join(directory, file), signal);
  return { table: table.name, columns: table.columns, file, rows: text.rows, ...stored };
}

async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory);
  await handle.sync();
  await handle.close();
}

/** Translates errors that the operator can fix. */
function explainError(error: Error, target: string): Error {
  if (error instanceof DatabaseError && error.code === INSUFFICIENT_PRIVILEGE) {
    return new StoreError('permission denied: take the backup with the DATABASE_URL of the database owner', {
      cause: error,
    });
  }
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall !== undefined && code !== undefined)
    return new StoreError(
      `the backup could not be written to ${target} (${code}); the partial files were removed`,
      { cause: error },
    );
  return error;
}

import { mkdir, open, rename, rm, stat, writeFile as write } from 'node:fs/promises';
import path from 'node:path';
import { type Client, DatabaseError } from 'pg';
import { copyOut } from '#db/backup/copy.ts';
import { writeFile } from '#db/backup/file.ts';
import { type Manifest, MANIFEST_FILE, type TableFile } from '#db/backup/manifest.ts';
import {
  copyOutSql,
  describeTables,
  FIGURES,
  KEPT,
  roleFor,
  SPELLING,
  type Table,
} from '#db/backup/tables.ts';
import { verifyFiles } from '#db/backup/verify.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { SHARD } from '#db/log/append.ts';
import { firstPosition } from '#db/log/read.ts';
import { readApplied, requireNotNewer } from '#db/schema/apply.ts';
import { readSchema } from '#db/schema/files.ts';

/**
 * Between two tables a file reaches the disk, which may be a slow one; then a session would be taken for
 * frozen.
 */
const IDLE_TIMEOUT_MS = 600_000;

/** What a run that was interrupted has left. */
const PARTIAL = '.partial';

const INSUFFICIENT_PRIVILEGE = '42501';

export type BackupOptions = {
  /** Connects as the owner, who alone may read everything; for exports, so with patience. */
  connect: () => Promise<Client>;
  /** Where it is to be; nothing may be there. */
  directory: string;
  signal?: AbortSignal;
};

/**
 * Takes a backup while everything runs: all tables as they are at one moment. Then it is read back from
 * the disk and the log in it checked, event by event. Under its name there is all of it or nothing.
 * @returns its manifest; `damage` in it says where the log does not agree with its chain. The backup is there
 * then all the same.
 * @throws {StoreError} when it can't be taken, in one line for the operator.
 */
export async function takeBackup({ connect, directory, signal }: BackupOptions): Promise<Manifest> {
  const target = path.resolve(directory);
  const partial = `${target}${PARTIAL}`;
  if (await stat(target).catch(() => null))
    throw new StoreError(`${target} is there already: name a directory that is not`);
  try {
    await rm(partial, { recursive: true, force: true });
    await mkdir(partial, { recursive: true, mode: 0o700 });
    const copied = await copyAll(connect, partial, signal);
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
    // So that an attempt that found the disk full does not leave it so.
    await rm(partial, { recursive: true, force: true }).catch(() => undefined);
    throw explain(error as Error, target);
  }
}

async function copyAll(
  connect: () => Promise<Client>,
  partial: string,
  signal?: AbortSignal,
): Promise<Manifest> {
  const client = await connect();
  try {
    const migration = await requireKnown(client);
    const goAlong = (await readIsWhole(client)) ? KEPT : [...KEPT, ...FIGURES];
    const names = (await describeTables(client, goAlong)).map(({ name }) => name);
    await client.query(
      `begin isolation level repeatable read read only; set local idle_in_transaction_session_timeout = ${IDLE_TIMEOUT_MS}`,
    );
    // Before the moment is chosen that the backup is of: a table that took the place of another after it
    // would seem empty.
    for (const name of names) await client.query(`${roleFor(name)}; lock table ${name} in access share mode`);
    await client.query(`reset role; ${SPELLING}`);
    const facts = await readFacts(client);
    if (goAlong === KEPT && !(await readIsWhole(client)))
      throw new StoreError('a part of the log has just left for its archive: take the backup again');
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
    await closeClient(client);
  }
}

/**
 * @returns the newest migration that the database has had. @throws {StoreError} when this version doesn't
 * know what that has made.
 */
async function requireKnown(client: Client): Promise<string> {
  const applied = await readApplied(client);
  const newest = applied?.migrations.at(-1);
  if (applied === null || newest === undefined)
    throw new StoreError('this database holds no Daybook: there is nothing to back up');
  requireNotNewer(await readSchema(), applied);
  return newest;
}

/**
 * Whether the database has all of the log. Where it has not, nobody can make the figures anew, and they go
 * along.
 */
async function readIsWhole(client: Client): Promise<boolean> {
  return (await firstPosition(client)) === 1;
}

type Facts = Omit<Manifest, 'backup' | 'migration' | 'damage' | 'files' | 'finished_at'>;

const UTC = `'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'`;

async function readFacts(client: Client): Promise<Facts> {
  const { rows } = await client.query<{
    log_id: string;
    postgres: string;
    partitions: number[];
    taken_at: string;
    position: string | null;
    at: string;
    chain: string;
  }>(
    `select i.log_id, current_setting('server_version') as postgres, to_char(clock_timestamp(), ${UTC}) as taken_at,
        array(select number from daybook.log_partition where daybook.is_attached(name) order by number) as partitions,
        b.last_position as position, to_char(b.at, ${UTC}) as at, encode(b.chain, 'hex') as chain
      from daybook.install i
      left join (select * from daybook.log_batch where shard = $1 order by last_position desc limit 1) b on true`,
    [SHARD],
  );
  const { log_id, postgres, partitions, taken_at, position, at, chain } = rows[0] as (typeof rows)[number];
  const head = position === null ? null : { position: Number(position), at, chain };
  return { log_id, postgres, head, checkpoint: await readCheckpoint(client), partitions, taken_at };
}

async function readCheckpoint(client: Client): Promise<string | null> {
  const [table] = await describeTables(client, ['daybook.checkpoint']);
  if (table === undefined) return null;
  const { rows } = await client.query<{ note: string }>(
    'select note from daybook.checkpoint where shard = $1 order by epoch desc, size desc limit 1',
    [SHARD],
  );
  return rows[0]?.note ?? null;
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

/** What the operator can put right, in their words. */
function explain(error: Error, target: string): Error {
  if (error instanceof DatabaseError && error.code === INSUFFICIENT_PRIVILEGE) {
    return new StoreError(
      'this login may not read all that a backup holds: take it with the DATABASE_URL of the owner of the database',
      { cause: error },
    );
  }
  const { code, syscall } = error as NodeJS.ErrnoException;
  if (syscall !== undefined && code !== undefined)
    return new StoreError(
      `the backup could not be written to ${target} (${code}): nothing of it was left there`,
      { cause: error },
    );
  return error;
}

import { type RawBuilder, sql } from 'kysely';
import type { Client } from 'pg';
import { lockArchive, requireFile } from '#db/archive/archive.ts';
import { detachPartition, dropPartition, readAttachment } from '#db/archive/detach.ts';
import { insertSql } from '#db/archive/line.ts';
import { readEventLines } from '#db/archive/read-lines.ts';
import { type Manifest, readManifest } from '#db/archive/manifest.ts';
import { ArchiveDamageError, type Contents, manifestMismatch, verifyFile } from '#db/archive/verify.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { countOf, db, onlyRowOf, rowOf } from '#db/schema/query.ts';
import { SHARD } from '#db/log/append.ts';
import { PAGE_EVENTS } from '#db/archive/bounds.ts';

type Recorded = { name: string; manifest: Manifest };

/**
 * Restores a file as a partition of the log in one transaction: each event is verified against the hash chain
 * before it is loaded, and the loaded rows are read back and compared with the file. The partition stays
 * attached until it is dropped.
 * @returns the partition's name.
 * @throws {ArchiveDamageError} when the file does not match its hash chain, or is of another log.
 * @throws {StoreError} when the partition was not archived, or another process uses the archive.
 */
export async function restorePartition(
  connect: () => Promise<Client>,
  file: string,
  signal?: AbortSignal,
): Promise<string> {
  const manifest = await readManifest(file);
  const { partition } = manifest;
  return withArchive(connect, async (client) => {
    const { name } = await readRecorded(client, partition);
    const attachment = await readAttachment(client, name);
    if (attachment === 'attached') throw new StoreError(`${name} is attached already`);
    if (attachment === 'detaching' && !(await detachPartition(client, name)))
      throw new StoreError(`${name} is being detached: retry later`);
    await client.query('begin');
    try {
      const loaded = `${name}_restored`;
      await client.query(
        `create table daybook.${client.escapeIdentifier(loaded)} (like daybook.log including all)`,
      );
      const contents = await load(client, file, loaded, manifest.first_position, signal);
      await requireSame(client, contents, manifest);
      // Not while partitions are made: each would wait for the other's lock on the log.
      await client.query(takeLock('partitions'));
      await dropPartition(client, name);
      await client.query(
        `alter table daybook.${client.escapeIdentifier(loaded)} rename to ${client.escapeIdentifier(name)}`,
      );
      await client.query('select daybook.attach_partition($1, $2)', [partition, name]);
      await setRestored(client, partition, sql<Date>`statement_timestamp()`);
      await client.query('commit');
    } catch (error) {
      await client.query('rollback').catch(() => undefined);
      throw error;
    }
    return name;
  });
}

/**
 * Drops the table of an archived partition, one that was restored included; its file stays.
 * @throws {StoreError | ArchiveDamageError} when it has no sound file in the directory: nothing is dropped
 * then.
 */
export async function dropArchived(
  connect: () => Promise<Client>,
  number: number,
  directory: string,
): Promise<string> {
  return withArchive(connect, async (client) => {
    const { name, manifest } = await readRecorded(client, number);
    if ((await readAttachment(client, name)) === 'dropped')
      throw new StoreError(`${name} was dropped already`);
    await requireFile(directory, manifest);
    if (!(await detachPartition(client, name)))
      throw new StoreError(`a long-running reader blocks detaching ${name}: retry later`);
    await dropPartition(client, name);
    await setRestored(client, number, null);
    return name;
  });
}

async function withArchive<T>(
  connect: () => Promise<Client>,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = await connect();
  try {
    if (!(await lockArchive(client)))
      throw new StoreError('another process is archiving: retry when it has finished');
    return await work(client);
  } finally {
    await closeClient(client);
  }
}

async function readRecorded(client: Client, number: number): Promise<Recorded> {
  const query = db
    .selectFrom('daybook.log_partition')
    .select(['name', sql<Manifest>`manifest`.as('manifest')])
    .where('number', '=', number)
    .where('archived_at', 'is not', null);
  const row = await rowOf(client, query);
  if (row === undefined) throw new StoreError(`partition ${number} of this log was not archived`);
  return row;
}

async function setRestored(client: Client, number: number, at: RawBuilder<Date> | null): Promise<void> {
  const query = db.updateTable('daybook.log_partition').set({ restored_at: at }).where('number', '=', number);
  await countOf(client, query);
}

async function load(
  client: Client,
  file: string,
  name: string,
  first: number,
  signal?: AbortSignal,
): Promise<Contents> {
  const table = `daybook.${client.escapeIdentifier(name)}`;
  const insert = insertSql(table);
  const readBack = readEventLines('read_restored', `daybook.${name}`);
  let after = first - 1;
  let waiting: string[] = [];
  const flush = async (lines: string[]): Promise<void> => {
    if (lines.length === 0) return;
    await client.query({ name: 'restore', text: insert, values: [SHARD, `[${lines.join(',')}]`] });
    const range = { after: String(after), upTo: String(after + lines.length) };
    const [loaded] = await readBack(client, range);
    if (loaded?.lines !== lines.join('\n'))
      throw new ArchiveDamageError(table, {
        position: after + 1,
        problem: 'differs from the file after loading',
      });
    after += lines.length;
  };
  const contents = await verifyFile(
    file,
    async (lines) => {
      waiting.push(...lines);
      while (waiting.length >= PAGE_EVENTS) {
        await flush(waiting.slice(0, PAGE_EVENTS));
        waiting = waiting.slice(PAGE_EVENTS);
      }
    },
    signal,
  );
  await flush(waiting);
  return contents;
}

/** Checks that a valid file is this partition of this log. */
async function requireSame(client: Client, contents: Contents, manifest: Manifest): Promise<void> {
  const { log_id, chain, first_position, end_position } = await onlyRowOf(
    client,
    db
      .selectFrom(['daybook.install as i', 'daybook.log_partition as p'])
      .select(['i.log_id', 'p.first_position', 'p.end_position'])
      .select(({ selectFrom }) =>
        selectFrom('daybook.log_batch')
          .select('chain')
          .where('shard', '=', SHARD)
          .where('last_position', '=', String(contents.lastLink.position))
          .as('chain'),
      )
      .where('p.number', '=', manifest.partition),
  );
  const position = contents.first_position;
  const wrong = manifestMismatch(contents, manifest);
  if (wrong !== null)
    throw new ArchiveDamageError(manifest.file, {
      position,
      problem: `its ${wrong} differs from its manifest`,
    });
  const isSame =
    contents.log_id === log_id &&
    Math.max(1, Number(first_position)) === position &&
    Number(end_position) - 1 === contents.last_position &&
    contents.lastLink.chain === chain?.toString('hex');
  if (!isSame) throw new ArchiveDamageError(manifest.file, { position, problem: 'it is of another log' });
}

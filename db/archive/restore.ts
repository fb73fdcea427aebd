import { type RawBuilder, sql } from 'kysely';
import type { Client } from 'pg';
import { lockArchive, requireFile } from '#db/archive/archive.ts';
import { detachPartition, dropPartition, readAttachment } from '#db/archive/detach.ts';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { batchText } from '#db/archive/line.ts';
import { readBatchText } from '#db/archive/read-batches.ts';
import { type Manifest, readManifest } from '#db/archive/manifest.ts';
import { type Contents, manifestMismatch, verifiedBatches } from '#db/archive/verify.ts';
import type { BatchRow } from '#db/log/chain.ts';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { takeLock } from '#db/postgres/locks.ts';
import { countOf, db, onlyRowOf, rowOf } from '#db/schema/query.ts';
import { SHARD } from '#db/log/append.ts';

type Recorded = { name: string; manifest: Manifest };

/**
 * Restores a file as a partition of the log in one transaction: each batch is verified against the hash
 * chain before it is loaded, and the loaded rows are read back, with their rows in `daybook.log_batch`, and
 * compared with the file. The partition stays attached until it is dropped.
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
    await requireOwn(client, manifest);
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
      const wrong = manifestMismatch(await load(client, file, loaded, signal), manifest);
      if (wrong !== null)
        throw new ArchiveDamageError(manifest.file, {
          position: manifest.first_position,
          problem: `its ${wrong} differs from its manifest`,
        });
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

/** Loads a batch's rows. Parameters: arrays of the columns; times are in microseconds since 1970. */
const insertSql = (table: string): string => `insert into ${table}
    (shard, last_position, at, event_count, instance, events)
  select shard, last_position, timestamptz 'epoch' + at_us * interval '1 microsecond', event_count,
      instance, events
    from unnest($1::smallint[], $2::bigint[], $3::bigint[], $4::integer[], $5::integer[], $6::text[])
      as batch(shard, last_position, at_us, event_count, instance, events)`;

async function load(client: Client, file: string, name: string, signal?: AbortSignal): Promise<Contents> {
  const table = `daybook.${client.escapeIdentifier(name)}`;
  const text = insertSql(table);
  const readBack = readBatchText('read_restored', `daybook.${name}`);
  const verified = verifiedBatches(file, signal);
  for (;;) {
    const { done, value } = await verified.next();
    if (done === true) return value;
    const rows = value.map(({ row }) => row);
    const [one, last] = [rows[0], rows.at(-1)] as [BatchRow, BatchRow];
    const first = Number(one.lastPosition) - Number(one.eventCount) + 1;
    const values = [
      rows.map(({ shard }) => shard),
      rows.map(({ lastPosition }) => lastPosition),
      rows.map(({ at }) => at),
      rows.map(({ eventCount }) => eventCount),
      rows.map(({ instance }) => instance),
      value.map(({ events }) => events),
    ];
    await client.query({ name: 'restore', text, values });
    const [loaded] = await readBack(client, { after: String(first - 1), upTo: last.lastPosition });
    if (loaded?.text !== value.map(batchText).join(''))
      throw new ArchiveDamageError(table, {
        position: first,
        problem: 'differs from the file after loading',
      });
  }
}

/** Checks that a manifest is of this partition of this log. */
async function requireOwn(client: Client, manifest: Manifest): Promise<void> {
  const chain = db
    .selectFrom('daybook.log_batch')
    .select('chain')
    .where('shard', '=', SHARD)
    .where('last_position', '=', String(manifest.last_position));
  const query = db
    .selectFrom(['daybook.install as i', 'daybook.log_partition as p'])
    .select(['i.log_id', 'p.first_position', 'p.end_position', chain.as('chain')])
    .where('p.number', '=', manifest.partition);
  const own = await onlyRowOf(client, query);
  const position = manifest.first_position;
  const isOwn =
    manifest.log_id === own.log_id &&
    Math.max(1, Number(own.first_position)) === position &&
    Number(own.end_position) - 1 === manifest.last_position &&
    manifest.chain_after === own.chain?.toString('hex');
  if (!isOwn) throw new ArchiveDamageError(manifest.file, { position, problem: 'it is of another log' });
}

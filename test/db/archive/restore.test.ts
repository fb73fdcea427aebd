import { readFile, writeFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ArchiveDamageError } from '#db/archive/damage.ts';
import { readAttachment } from '#db/archive/detach.ts';
import { dropArchived, restorePartition } from '#db/archive/restore.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { firstPosition, readPage } from '#db/log/read.ts';
import { readEntries, verifyChain } from '../../support/audit/verify-chain.ts';
import { connectAs } from '../../support/log/log-writer.ts';
import { createPartitionedLog, type PartitionedLog } from '../../support/audit/partitioned-log.ts';

let log: PartitionedLog;
let owner: Awaited<ReturnType<typeof connectAs>>;
const connect = () => connectAs(log.database, 'owner');
let entries: string[];
let events: Awaited<ReturnType<typeof readPage>>;

beforeAll(async () => {
  log = await createPartitionedLog(50, 12);
  // Batches of all sizes, one of which would be larger than a partition.
  await log.fill(260, [3, 1, 70, 8]);
  owner = await connect();
  entries = await readEntries(owner);
  events = await readPage(owner, 0, 'all');
  await log.archive({ drop: true });
});
afterAll(async () => {
  await owner?.end();
  await log?.[Symbol.asyncDispose]();
});

test('archive restore: the log is equal row by row, with its chain and its triggers', async () => {
  const files = await log.files();
  expect(files.length).toBeGreaterThan(2);
  expect(await readAttachment(owner, 'log_000000')).toBe('dropped');
  // Files can be restored in any order.
  for (const file of files.toReversed()) await restorePartition(connect, file);
  expect(await firstPosition(owner)).toBe(1);
  expect(await readEntries(owner)).toEqual(entries);
  expect(await readPage(owner, 0, 'all')).toEqual(events);
  expect(await verifyChain(owner)).toBeNull();
  for (const change of [
    'update daybook.log_000000 set shard = 1',
    'delete from daybook.log',
    'truncate daybook.log_000000',
  ]) {
    await expect(owner.query(change), change).rejects.toThrow('append-only');
  }
  await expect(restorePartition(connect, files[0] as string)).rejects.toThrow(
    'log_000000 is attached already',
  );
  // A restored partition stays attached until it is dropped.
  expect(await log.archive({ drop: true })).toMatchObject({ archived: [], detached: [], dropped: [] });
  for (const number of files.keys()) await dropArchived(connect, number, log.directory);
  expect(await firstPosition(owner)).toBe(files.length * 50);
  expect(await readPage(owner, 0, 'control')).toEqual(events.filter(({ stream }) => stream !== null));
});

test('archive restore: a damaged or foreign file leaves nothing in the log', async () => {
  const [file] = (await log.files()) as [string];
  const content = await readFile(file);
  const changed = Buffer.from(content);
  const middle = changed.length >> 1;
  changed[middle] = (changed[middle] as number) ^ 1;
  await writeFile(file, changed);
  await expect(restorePartition(connect, file)).rejects.toThrow(ArchiveDamageError);
  await writeFile(file, content);

  await using other = await createPartitionedLog(50, 12);
  await other.fill(160);
  await other.archive({ drop: true });
  await expect(restorePartition(() => connectAs(other.database, 'owner'), file)).rejects.toThrow(
    'of another log',
  );
  expect(await readAttachment(owner, 'log_000000')).toBe('dropped');
  const { rows: left } = await owner.query("select from pg_class where relname like '%restored%'");
  expect(left).toEqual([]);
});

test('archive restore and drop: fail for a partition without a file, or that was not archived', async () => {
  await expect(dropArchived(connect, 9, log.directory)).rejects.toThrow(
    'partition 9 of this log was not archived',
  );
  await expect(dropArchived(connect, 0, log.directory)).rejects.toThrow('log_000000 was dropped already');
  await restorePartition(connect, (await log.files())[0] as string);
  await expect(dropArchived(connect, 0, '/nowhere')).rejects.toThrow(StoreError);
  expect(await readAttachment(owner, 'log_000000')).toBe('attached');
});

import * as fc from 'fast-check';
import { Client } from 'pg';
import { expect, test } from 'vitest';
import { keepPartitions, makePartitions, partitionsAhead } from '#db/log/partitions.ts';
import type { RequestEvent } from '#db/events/events.ts';
import { ArchivedError, GapError, readPage } from '#db/log/read.ts';
import { createPartitionedLog } from '../../support/audit/partitioned-log.ts';
import { verifyChain } from '../../support/audit/verify-chain.ts';
import { controller } from '../../support/controller.ts';
import { ask, createDatabase } from '../../support/database.ts';
import { openAppender, outcomeOf } from '../../support/log/appended.ts';
import { accepted, connectAs, openWriter, readLog } from '../../support/log/log-writer.ts';
import { until } from '../../support/relay.ts';

test('partitions are created ahead while the server runs, not only at its start', async () => {
  await using database = await createDatabase();
  const there = async (): Promise<boolean> =>
    (await ask(database.config('owner'), "select to_regclass('daybook.log_000002') is not null")) === true;
  expect(await there()).toBe(false);

  const failures: unknown[] = [];
  const keeper = keepPartitions(
    () => connectAs(database, 'relay'),
    20,
    (error) => failures.push(error),
  );
  await until(there, (made) => made, 'the partition');
  keeper.close();
  expect(failures).toEqual([]);

  // It is one of the log's, and as protected as the others.
  const client = new Client(database.config('owner'));
  await client.connect();
  await expect(client.query('truncate daybook.log_000002')).rejects.toThrow('append-only');
  await client.end();
});

test("an hour's worth of partitions is created ahead at the current rate, and at least two", () => {
  expect([0, 1, 27_000, 28_000, 100_000].map((rate) => partitionsAhead(rate, 50_000_000))).toEqual([
    2, 2, 2, 3, 8,
  ]);
  expect(partitionsAhead(1e9, 10)).toBe(64);
});

test('a changed partition size applies to new partitions, without a gap', async () => {
  await using database = await createDatabase();
  const owner = await connectAs(database, 'owner');
  await owner.query('update daybook.install set partition_size = 1000000');
  // As if the second had just begun.
  await owner.query(
    `insert into daybook.log_batch (last_position, batch_no, at, event_count, instance, shard, format, chain)
      values (60000000, 1, now(), 1, 0, 0, 1, 'x')`,
  );
  expect(await makePartitions(owner)).toBe(2);
  const { rows } = await owner.query(
    `select name, first_position::float8 as first, end_position::float8 as end
      from daybook.log_partition order by number`,
  );
  expect(rows).toEqual([
    { name: 'log_000000', first: 0, end: 50e6 },
    { name: 'log_000001', first: 50e6, end: 100e6 },
    { name: 'log_000002', first: 100e6, end: 101e6 },
    { name: 'log_000003', first: 101e6, end: 102e6 },
  ]);
  expect(await makePartitions(owner)).toBe(0);
  await owner.end();
});

type BatchPlace = { first: number; last: number; batch_no: number };

test('a batch that reaches over borders becomes one in each partition, under one number', async () => {
  const size = 10;
  await using log = await createPartitionedLog(size, 2);
  await using writer = await openWriter(log.database);
  await using other = await openWriter(log.database);
  const control = controller(other);
  const numbers = { requests: 0, control: 0 };
  let head = 0;
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1, max: 35 }), fc.boolean(), async (count, isControl) => {
      await writer.client.query('select daybook.create_partitions(6)');
      const batchNo = isControl ? ++numbers.control : ++numbers.requests;
      const batch: RequestEvent[] = Array.from({ length: count }, () => accepted());
      if (isControl) expect(await control(count)).toBe(head + count);
      else {
        expect(await writer.append(batch, batchNo)).toBe(head + count);
        // A repeated call returns the end of the whole, and writes nothing.
        expect(await writer.append(batch, batchNo)).toBe(head + count);
        expect((await readPage(writer.client, head)).map(({ event }) => event)).toEqual(batch);
      }
      const { rows } = await writer.client.query<BatchPlace>(
        `select (l.last_position - l.event_count + 1)::int as first, l.last_position::int as last,
            batch_no::int as batch_no
          from daybook.log l join daybook.log_batch using (shard, last_position)
          where last_position > $1 order by last_position`,
        [head],
      );
      const expected: BatchPlace[] = [];
      for (let first = head + 1; first <= head + count; first = (expected.at(-1)?.last ?? 0) + 1) {
        const last = Math.min(head + count, (Math.floor(first / size) + 1) * size - 1);
        expected.push({ first, last, batch_no: batchNo });
      }
      expect(rows).toEqual(expected);
      head += count;
    }),
    { numRuns: 60 },
  );
  expect(await verifyChain(writer.client)).toBeNull();
  const streams = `select count(*)::int from daybook.control_event c
    full join (select * from daybook.events() where stream is not null) e using (position, stream, version)
    where c.line is null or e.shard is null`;
  expect(await ask(log.database.config('auditor'), streams)).toBe(0);
});

test('an append that finds no partition writes nothing, and is repeated when there is one', async () => {
  await using log = await createPartitionedLog(10, 1);
  const made: Promise<unknown>[] = [];
  const owner = await connectAs(log.database, 'owner');
  const ends = async (): Promise<unknown> =>
    (await owner.query('select max(end_position)::int as end from daybook.log_partition')).rows;
  expect(await ends()).toEqual([{ end: 20 }]);
  await using appending = await openAppender(log.database, {
    onError: (problem, error) => {
      expect([problem, error]).toMatchObject(['append_failed', { code: '23514' }]);
      if (made.length === 0) made.push(owner.query('select daybook.create_partitions(4)'));
    },
  });
  const calls = Array.from({ length: 25 }, () => accepted());
  const outcomes = await Promise.all(calls.map((call) => outcomeOf(appending.appender, call)));
  expect(outcomes).toEqual(calls.map(() => 'in doubt'));
  await until(
    () => readLog(log.database),
    (events) => events.length > 0,
    'the repeated append',
  );
  expect((await readLog(log.database)).map(({ event }) => event)).toEqual(calls);
  await Promise.all(made);
  await owner.end();
});

test('a page that lies in archived or deleted partitions is an error, and no end of the log', async () => {
  await using log = await createPartitionedLog(10, 3);
  await log.append(35);
  const owner = await connectAs(log.database, 'owner');
  await owner.query('alter table daybook.log disable trigger append_only');
  await owner.query('delete from daybook.log where last_position between 20 and 29');
  await expect(readPage(owner, 19, 'all', 3)).rejects.toThrow(new GapError(20));
  await owner.query('alter table daybook.log detach partition daybook.log_000001');
  await expect(readPage(owner, 9, 'all', 3)).rejects.toThrow(ArchivedError);
  expect((await readPage(owner, 29, 'all', 3)).map(({ position }) => position)).toEqual([30, 31, 32]);
  await owner.end();
});

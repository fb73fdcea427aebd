import { Client } from 'pg';
import { expect, test } from 'vitest';
import { keepPartitions, makePartitions, partitionsAhead } from '#db/log/partitions.ts';
import { ask, createDatabase } from '../../support/database.ts';
import { connectAs } from '../../support/log/log-writer.ts';
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

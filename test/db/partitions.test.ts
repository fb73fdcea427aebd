import { Client } from 'pg';
import { expect, test } from 'vitest';
import { keepPartitions } from '#db/log/partitions.ts';
import { ask, createDatabase } from '../support/database.ts';
import { connectAs } from '../support/log-writer.ts';
import { until } from '../support/relay.ts';

test('partitions that the log will need are made while the server runs, not only when it starts', async () => {
  await using database = await createDatabase();
  const there = async (): Promise<boolean> =>
    (await ask(database.config('owner'), "select to_regclass('daybook.log_000002') is not null")) === true;
  expect(await there()).toBe(false);

  const failures: unknown[] = [];
  const keeper = keepPartitions(() => connectAs(database, 'relay'), 20, (error) => failures.push(error));
  await until(there, (made) => made, 'the partition');
  keeper.close();
  expect(failures).toEqual([]);

  // It is one of the log's, and as protected as the others.
  const client = new Client(database.config('owner'));
  await client.connect();
  await expect(client.query('truncate daybook.log_000002')).rejects.toThrow('append-only');
  await client.end();
});

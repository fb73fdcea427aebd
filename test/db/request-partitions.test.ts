import type { Client } from 'pg';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createLogger } from '#db/diagnostics/logger.ts';
import { uuidv7 } from '#db/ids.ts';
import { closeClient } from '#db/postgres/connect.ts';
import { compare } from '#db/projections/compare.ts';
import { rebuild } from '#db/projections/rebuild.ts';
import {
  dropRequestPartition,
  makeRequestPartitions,
  partitionDays,
  readRequestPartitions,
} from '#db/projections/request-partitions.ts';
import { requests } from '#db/projections/requests.ts';
import { prepareQueue } from '../../worker/queue.ts';
import { retain, retentionsOf } from '../../worker/tasks/retain.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { accepted, connectAs, openWriter, settled } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';

/** Requests lie in partitions by time, and retention drops them whole. */

const DAY_MS = 86_400_000;
const NOW_MS = Date.now();
const TODAY_MS = Math.floor(NOW_MS / DAY_MS) * DAY_MS;
const NEVER = new AbortController().signal;

let database: TestDatabase;
let client: Client;

beforeAll(async () => {
  database = await createDatabase();
  await prepareQueue(database, createLogger('silent'));
  client = await connectAs(database, 'worker');
});
afterAll(async () => {
  await closeClient(client);
  await database[Symbol.asyncDispose]();
});
afterEach(async () => {
  await client.query('truncate projection.request, projection.running_request');
  for (const { name } of await readRequestPartitions(client))
    await client.query(`drop table projection.${name}`);
  await client.query("update daybook.projection set kept_from = '-infinity'");
});

type Made = { acceptedMs: number; endedMs: number | null };
/** Inserts rows as the projector would, with ids of the time of their acceptance. */
const insert = (rows: readonly Made[]) =>
  client.query(
    `insert into projection.request (request, position, accepted_at, ended_at, instance, account, key)
      select r.id::uuid, r.n, to_timestamp(r.accepted / 1000), to_timestamp(r.ended / 1000), 1, 'Account1',
          'Key00001'
        from jsonb_to_recordset($1) as r(id text, n bigint, accepted float8, ended float8)`,
    [
      JSON.stringify(
        rows.map(({ acceptedMs, endedMs }, n) => ({
          id: uuidv7(acceptedMs),
          n,
          accepted: acceptedMs,
          ended: endedMs,
        })),
      ),
    ],
  );
const counts = async (): Promise<Record<string, number>> => {
  const { rows } = await client.query<{ name: string; count: number }>(
    `select tableoid::regclass::text as name, count(*)::int as count from projection.request group by 1`,
  );
  return Object.fromEntries(rows.map(({ name, count }) => [name, count]));
};
const nameOf = (ms: number): string =>
  `projection.request_${new Date(ms).toISOString().slice(0, 10).replaceAll('-', '')}`;

test('partitions reach one ahead of now, and take in the rows that came before them', async () => {
  await insert([
    { acceptedMs: NOW_MS - 3 * DAY_MS, endedMs: NOW_MS - 3 * DAY_MS },
    { acceptedMs: NOW_MS, endedMs: NOW_MS },
  ]);
  expect(await makeRequestPartitions(client, { days: 1 })).toBe(2);
  expect(await counts()).toEqual({ 'projection.request_default': 1, [nameOf(TODAY_MS)]: 1 });
  expect(await makeRequestPartitions(client, { days: 1 })).toBe(0);
  // The next day one more is due, and a new width begins where the last partition ends.
  expect(await makeRequestPartitions(client, { days: 1, nowMs: NOW_MS + DAY_MS })).toBe(1);
  await makeRequestPartitions(client, { days: 7, nowMs: NOW_MS + 3 * DAY_MS });
  const partitions = await readRequestPartitions(client);
  expect(partitions.slice(1).map(({ from }) => from)).toEqual(partitions.slice(0, -1).map(({ to }) => to));
});

test('about thirteen partitions have the kept rows, of one day at least', () => {
  expect([1, 12, 30, 90, 365, 3_650, 0].map(partitionDays)).toEqual([1, 1, 2, 6, 28, 28, 28]);
});

test('retention drops old partitions and no row that is to be kept', async () => {
  await makeRequestPartitions(client, { days: 1, from: new Date(NOW_MS - 9 * DAY_MS) });
  const old = NOW_MS - 8 * DAY_MS;
  await insert([
    ...Array.from({ length: 50 }, (_, n) => ({ acceptedMs: old + n, endedMs: old + n })),
    { acceptedMs: old, endedMs: null },
    { acceptedMs: old, endedMs: NOW_MS - DAY_MS },
    ...Array.from({ length: 30 }, (_, n) => ({ acceptedMs: NOW_MS - DAY_MS + n, endedMs: NOW_MS })),
  ]);
  const [retention] = retentionsOf(4);
  const before = (await readRequestPartitions(client)).length;
  await retain(client, retention ? [retention] : [], NEVER);
  const left = await readRequestPartitions(client);
  expect(before - left.length).toBe(5);
  // The call that still runs and the one that ended late stay.
  expect(await counts()).toEqual({ 'projection.request_default': 2, [nameOf(TODAY_MS - DAY_MS)]: 30 });
  const { rows } = await client.query<{ kept_from: Date; wrong: number }>(
    `select kept_from, (select count(*)::int from projection.request where ended_at < kept_from) as wrong
      from daybook.projection where name = 'requests'`,
  );
  expect(rows).toEqual([{ kept_from: left[0]?.from, wrong: 0 }]);
  expect(await retain(client, retention ? [retention] : [], NEVER)).toBe(0);
});

test('a reader delays the drop of a partition, and others read meanwhile', async () => {
  await makeRequestPartitions(client, { days: 1, from: new Date(NOW_MS - 3 * DAY_MS) });
  const reader = await connectAs(database, 'auditor');
  const other = await connectAs(database, 'relay');
  try {
    await reader.query('begin; select 1 from projection.request');
    const events: string[] = [];
    const dropped = dropRequestPartition(client, new Date(NOW_MS)).then((rows) => {
      events.push('dropped');
      return rows;
    });
    // Each waits for the drop's own time-out at most.
    for (let n = 0; n < 3; n++) await other.query('select count(*) from projection.request');
    events.push('read');
    await reader.query('commit');
    expect(await dropped).toBe(0);
    expect(events).toEqual(['read', 'dropped']);
  } finally {
    await closeClient(reader);
    await closeClient(other);
  }
});

test('a rebuild has the same partitions and rows', async () => {
  await using writer = await openWriter(database);
  await makeRequestPartitions(client, { days: 1, from: new Date(NOW_MS - 2 * DAY_MS) });
  const calls = Array.from({ length: 20 }, () => accepted());
  await writer.append(calls);
  await writer.append(calls.slice(5).map((each) => settled(each)));
  await projectAll(database);
  const before = await counts();
  const partitions = await readRequestPartitions(client);
  await rebuild(client, requests);
  expect(await readRequestPartitions(client)).toEqual(partitions);
  expect(await counts()).toEqual(before);
  const session = await connectAs(database, 'auditor');
  expect(await compare(session, requests)).toMatchObject({ differing: 0, faults: [] });
  await closeClient(session);
});

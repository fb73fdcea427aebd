import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { closeClient } from '#db/postgres/connect.ts';
import type { EventOf, Placed } from '#db/events/events.ts';
import { expireKey, recordExpiry } from '#db/log/expire-key.ts';
import { keyState } from '#db/fold/key.ts';
import { ReadModel } from '#server/read-model/read-model.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs, openWriter, readLog, type Writer } from '../support/log/log-writer.ts';
import { changeControl, until } from '../support/relay.ts';

/** The end of a key by its expiry, in the log once, at or after its moment and never for another reason. */

let database: TestDatabase;
let dataDir: string;
let client: Client;
let writer: Writer;
let batchNo = 0;
/** Long enough that a busy machine has made the key by then. */
const LIFE_MS = 1_500;
const HOUR_MS = 3_600_000;
const number = () => ({ instance: writer.instance, nextBatchNo: () => ++batchNo });

beforeAll(async () => {
  database = await createDatabase();
  dataDir = await makeTestDirectory();
  client = await connectAs(database, 'worker');
  writer = await openWriter(database);
  await changeControl(database, dataDir, (control) => control.createAccount('acme'));
});

afterAll(async () => {
  await closeClient(client);
  await writer[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
  await removeTestDirectory(dataDir);
});

const makeKey = async (lifeMs: number | null): Promise<string> =>
  changeControl(database, dataDir, async (control, pepper) => {
    const expiresAt = lifeMs === null ? null : new Date(Date.now() + lifeMs);
    return (await control.createKey(pepper, { account: 'acme', name: 'key', expiresAt })).id;
  });
const endsOf = async (key: string) =>
  (await readLog(database)).filter(({ event }) => event.type === 'key.expired' && event.key === key);
/** Waits until a key's moment has come by the clock that decides. */
const come = async (key: string): Promise<void> => {
  const expiresAt = (await readLog(database)).flatMap(({ event }) =>
    event.type === 'key.created' && event.key === key ? [event.expires_at] : [],
  )[0];
  await until(
    async () =>
      (await client.query('select 1 where clock_timestamp() >= $1::timestamptz', [expiresAt])).rowCount,
    (count) => count === 1,
    'its moment',
  );
};

test('the worker records the expiry of a key once, after its expiry time', async () => {
  const id = await makeKey(LIFE_MS);
  await come(id);
  expect(await recordExpiry(client, id, number())).toBe(true);
  expect(await recordExpiry(client, id, number())).toBe(false);
  const [end, ...more] = await endsOf(id);
  expect(more).toEqual([]);
  expect(end).toMatchObject({ stream: `key/${id}`, version: 2, event: { actor: 'worker' } });

  const model = new ReadModel();
  model.apply(await readLog(database));
  const key = model.key(id);
  expect(key?.expiredAt?.getTime()).toBeGreaterThanOrEqual(key?.expiresAt?.getTime() ?? Infinity);
  expect(key && keyState(key, key.expiredAt ?? new Date(0))).toBe('expired');
});

test('ten concurrent attempts record one expiry', async () => {
  const id = await makeKey(LIFE_MS);
  await come(id);
  const writers = await Promise.all(Array.from({ length: 10 }, () => openWriter(database)));
  const results = await Promise.all(
    writers.map((each) => recordExpiry(each.client, id, { instance: each.instance, nextBatchNo: () => 1 })),
  );
  expect(results.filter(Boolean)).toEqual([true]);
  expect(await endsOf(id)).toHaveLength(1);
  for (const each of writers) await each[Symbol.asyncDispose]();
});

test('a key that is revoked, unexpired, without expiry or extended is not expired', async () => {
  const [revoked, young, endless, moved] = [
    await makeKey(LIFE_MS),
    await makeKey(HOUR_MS),
    await makeKey(null),
    await makeKey(LIFE_MS),
  ];
  await changeControl(database, dataDir, (control) => control.revokeKey(revoked));
  const { event } = (await readLog(database)).findLast((each) => each.stream === `key/${moved}`) as Placed<
    EventOf<'key.created'>
  >;
  const later = new Date(Date.now() + HOUR_MS).toISOString();
  await using another = await openWriter(database);
  await another.control([
    {
      event: {
        type: 'key.restricted',
        account: event.account,
        key: moved,
        terms: {},
        expires_at: later,
        windows: 'keep',
        actor: 'test',
      },
      version: 2,
    },
  ]);
  await come(moved);
  for (const id of [revoked, young, endless, moved, 'Unknown1']) {
    expect(await recordExpiry(client, id, number())).toBe(false);
    expect(await endsOf(id)).toEqual([]);
  }
});

test('an expired key with a new expiry is active again, and expires again', () => {
  const now = new Date('2026-11-21T12:00:00Z');
  const ended = {
    id: 'Key00001',
    account: 'Account1',
    name: 'key',
    createdAt: now,
    expiresAt: now,
    expiredAt: now,
    revokedAt: null,
    secret: { digest: '', last4: '' },
    workload: null,
    previous: null,
    terms: null,
    termsPosition: 0,
    resetPosition: 0,
    version: 2,
  };
  expect(expireKey(ended, now)).toBeNull();
  expect(expireKey({ ...ended, expiredAt: null }, now)).toMatchObject({
    type: 'key.expired',
    key: 'Key00001',
  });
  expect(expireKey({ ...ended, expiredAt: null }, new Date(now.getTime() - 1))).toBeNull();
});

import type { Client } from 'pg';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { expireKey, recordExpiry } from '#db/expiry.ts';
import { keyState } from '#db/fold/key.ts';
import { closeClient } from '#db/connect.ts';
import { ReadModel } from '#server/read-model.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { connectAs, openWriter, readLog, type Writer } from '../support/log-writer.ts';
import { changeControl } from '../support/relay.ts';

/** The end of a key by its expiry, in the log once, at or after its moment and never for another reason. */

let database: TestDatabase;
let dataDir: string;
let client: Client;
let writer: Writer;
let batchNo = 0;
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
const pass = (ms: number): Promise<unknown> => client.query('select pg_sleep($1)', [ms / 1000]);

test('a key is put down as ended once, after its moment, by the worker', async () => {
  const id = await makeKey(400);
  expect(await recordExpiry(client, id, number())).toBe(false);
  await pass(500);
  expect(await recordExpiry(client, id, number())).toBe(true);
  expect(await recordExpiry(client, id, number())).toBe(false);
  const [end, ...more] = await endsOf(id);
  expect(more).toEqual([]);
  expect(end).toMatchObject({ stream: `key/${id}`, version: 2, event: { actor: 'worker' } });

  const model = new ReadModel();
  model.apply(await readLog(database));
  const key = model.key(id);
  expect(key?.expiredAt?.getTime()).toBeGreaterThanOrEqual(key?.expiresAt?.getTime() ?? Infinity);
  expect(key && keyState(key, new Date(Date.now() + 1_000))).toBe('expired');
});

test('ten that try at once put it down once', async () => {
  const id = await makeKey(100);
  await pass(200);
  const writers = await Promise.all(Array.from({ length: 10 }, () => openWriter(database)));
  const results = await Promise.all(writers.map((each) => recordExpiry(each.client, id, { instance: each.instance, nextBatchNo: () => 1 })));
  expect(results.filter(Boolean)).toEqual([true]);
  expect(await endsOf(id)).toHaveLength(1);
  for (const each of writers) await each[Symbol.asyncDispose]();
});

test('a key that was revoked, that never ends, or whose end was moved on is left alone', async () => {
  const [revoked, endless, moved] = [await makeKey(300), await makeKey(null), await makeKey(300)];
  await changeControl(database, dataDir, async (control) => {
    await control.revokeKey(revoked);
    await control.restrictKey(moved, { set: {}, drop: [], clear: false, expiresAt: new Date(Date.now() + 3_600_000), windows: 'keep' });
  });
  await pass(400);
  for (const id of [revoked, endless, moved, 'Unknown1']) {
    expect(await recordExpiry(client, id, number())).toBe(false);
    expect(await endsOf(id)).toEqual([]);
  }
});

test('a key that has ended and is given another end lives again, and ends again', () => {
  const now = new Date('2026-11-21T12:00:00Z');
  const ended = {
    id: 'Key00001', account: 'Account1', name: 'key', createdAt: now, expiresAt: now, expiredAt: now, revokedAt: null,
    secret: { digest: '', last4: '' }, previous: null, terms: null, termsPosition: 0, resetPosition: 0, version: 2,
  };
  expect(expireKey(ended, now)).toBeNull();
  expect(expireKey({ ...ended, expiredAt: null }, now)).toMatchObject({ type: 'key.expired', key: 'Key00001' });
  expect(expireKey({ ...ended, expiredAt: null }, new Date(now.getTime() - 1))).toBeNull();
});

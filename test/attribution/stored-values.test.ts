import { rename } from 'node:fs/promises';
import { pino } from 'pino';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { readAccountKey, readNames } from '#db/attribution/names.ts';
import { deleteExpiredValues, destroyAccountKey, eraseValue, lockAccountKey } from '#db/attribution/store.ts';
import type { Placed } from '#db/events/events.ts';
import { closeClient, connectAs } from '#db/postgres/connect.ts';
import { publicId } from '#db/ids.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { Attribution, type CallAttribution } from '#server/attribution/attribution.ts';
import { STORE_QUEUE_MAX } from '#server/attribution/bounds.ts';
import type { AttributionValues } from '#server/attribution/read-attribution.ts';
import { readKeys, rekey } from '#server/secrets/master-key.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { countLockWaiters } from '../support/lock-waiters.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';

/** The keys and values of attribution in the database, as several servers use them. */

let directory: string;
let file: string;
let database: TestDatabase;
let account = '';
const lines: string[] = [];
beforeAll(async () => {
  directory = await makeTestDirectory();
  file = masterKeyFile({ DAYBOOK_DATA: directory });
  database = await createDatabase();
});
beforeEach(() => {
  account = publicId();
  lines.length = 0;
});
afterAll(async () => {
  await database?.[Symbol.asyncDispose]();
  await removeTestDirectory(directory);
});

function serve(): Attribution & AsyncDisposable {
  const log = pino({ level: 'info' }, { write: (line) => lines.push(line) });
  const attribution = new Attribution(database.config('relay'), file, () => Date.now(), log);
  return Object.assign(attribution, { [Symbol.asyncDispose]: () => attribution.close() });
}

const ofUser = (endUser: string): AttributionValues => ({ endUser, session: null, tags: [], unusable: 0 });

async function pseudonym(server: Attribution, user: string): Promise<string> {
  return ((await server.resolve(account, ofUser(user))) as CallAttribution).end_user as string;
}

async function asRelay<T>(work: (client: Awaited<ReturnType<typeof connectAs>>) => Promise<T>): Promise<T> {
  const client = await connectAs(database, 'relay');
  try {
    return await work(client);
  } finally {
    await closeClient(client);
  }
}

const nameOf = (of: string): Promise<string | undefined> =>
  asRelay(async (client) => {
    const keys = readKeys(file);
    if (keys === null) throw new Error('there is no master key');
    const named = { kind: 'end_user', pseudonym: of } as const;
    const key = await readAccountKey(client, keys, account);
    if (key === null) return undefined;
    return (await readNames(client, key, [named])).get(`end_user/${of}`);
  });

const storedCount = (): Promise<number> =>
  asRelay(async (client) => {
    const query = 'select from daybook.attribution_value where account = $1';
    return (await client.query(query, [account])).rows.length;
  });

test('two servers that see an account first at the same time use one key', async () => {
  await using one = serve();
  await using other = serve();
  const [first, second] = await Promise.all([pseudonym(one, 'ada'), pseudonym(other, 'ada')]);
  expect(first).toBe(second);
  await Promise.all([one.flush(), other.flush()]);
  expect(await nameOf(first)).toBe('ada');
});

test('only the first call of an account waits', async () => {
  await using server = serve();
  expect(server.resolve(account, ofUser('ada'))).toBeInstanceOf(Promise);
  expect(server.resolve(account, ofUser('grace'))).toBeInstanceOf(Promise);
  await pseudonym(server, 'ada');
  expect(server.resolve(account, ofUser('alan'))).not.toBeInstanceOf(Promise);
});

test('a value is not stored that was erased while it waited, nor one of a destroyed key', async () => {
  await using server = serve();
  const erased = await pseudonym(server, 'ada');
  await asRelay(async (client) => {
    await client.query('begin');
    await lockAccountKey(client, account);
    await eraseValue(client, account, { kind: 'end_user', pseudonym: erased });
    let isFlushed = false;
    const flushed = server.flush().then(() => (isFlushed = true));
    // Stored or not, it must not be decided before the erasure is.
    await expect.poll(async () => isFlushed || (await countLockWaiters(client)) > 0).toBe(true);
    expect(isFlushed).toBe(false);
    await client.query('commit');
    await flushed;
  });
  expect(await nameOf(erased)).toBeUndefined();

  await pseudonym(server, 'grace');
  await asRelay(async (client) => {
    await client.query('begin');
    await lockAccountKey(client, account);
    await destroyAccountKey(client, account);
    await client.query('commit');
  });
  await server.flush();
  expect(await storedCount()).toBe(0);
});

test('a server forgets an erased value, whether it waits to be stored or is remembered', async () => {
  await using server = serve();
  const of = await pseudonym(server, 'ada');
  const event = { type: 'attribution.erased', account, kind: 'end_user', pseudonym: of, actor: 'test' };
  server.apply([{ event } as unknown as Placed]);
  await server.flush();
  expect(await storedCount()).toBe(0);
  // What it no longer remembers it takes for new: the database, which was not asked here, would refuse it.
  expect(await pseudonym(server, 'ada')).toBe(of);
  await server.flush();
  expect(await storedCount()).toBe(1);
});

test('rekey seals the keys of attribution again, and pseudonyms stay the same', async () => {
  await using server = serve();
  const before = await pseudonym(server, 'ada');
  await server.flush();
  const rekeyed = await asRelay((client) => rekey(client, file, false));
  expect(rekeyed).toMatchObject({ damaged_attribution: [], kept: [] });
  expect(rekeyed.attribution_keys).toBeGreaterThan(0);
  await using later = serve();
  expect(await pseudonym(later, 'ada')).toBe(before);
  expect(await nameOf(before)).toBe('ada');
});

test('without the master key calls are recorded without attribution, and counted', async () => {
  await using known = serve();
  await pseudonym(known, 'ada');
  await rename(file, `${file}.away`);
  try {
    await using server = serve();
    expect(await server.resolve(account, ofUser('ada'))).toBeNull();
    // It is not asked for again at once.
    expect(server.resolve(account, ofUser('ada'))).toBeNull();
    expect(server.counts.unattributed).toBe(2);
    const [line = ''] = lines.filter((each) => each.includes('key of attribution not available'));
    expect(line).toContain('DAYBOOK_MASTER_KEY_FILE');
    expect(line).not.toContain('ada');
    // What is in memory already is not affected.
    expect(await pseudonym(known, 'grace')).toMatch(/^\w{16}$/);
  } finally {
    await rename(`${file}.away`, file);
  }
});

test('values beyond the queue are counted, and their pseudonyms recorded all the same', async () => {
  await using server = serve();
  await pseudonym(server, 'ada');
  const pseudonyms = new Set<string>();
  for (let n = 0; n < STORE_QUEUE_MAX + 10; n++)
    pseudonyms.add((server.resolve(account, ofUser(`user-${n}`)) as CallAttribution).end_user as string);
  expect(pseudonyms.size).toBe(STORE_QUEUE_MAX + 10);
  expect(server.counts.unstored).toBe(11);
  // Nothing waits any more once the key is destroyed.
  const event = { type: 'attribution.key_destroyed', account, actor: 'test' };
  server.apply([{ event } as unknown as Placed]);
  await server.flush();
  expect(await storedCount()).toBeLessThan(STORE_QUEUE_MAX);
});

test('the relay deletes values past their retention, and no others', async () => {
  await using server = serve();
  const [old, kept] = await Promise.all([pseudonym(server, 'ada'), pseudonym(server, 'grace')]);
  await server.flush();
  const owner = await connectAs(database, 'owner');
  try {
    const age = `update daybook.attribution_value set first_seen_at = now() - interval '401 days'
      where account = $1 and pseudonym = $2`;
    await owner.query(age, [account, old]);
  } finally {
    await closeClient(owner);
  }
  expect(await asRelay(deleteExpiredValues)).toBe(1);
  expect(await nameOf(old)).toBeUndefined();
  expect(await nameOf(kept)).toBe('grace');
});

import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { AttributionControl } from '#server/control/attribution-control.ts';
import { withControl } from '#server/control/control.ts';
import { KEYS_PER_ACCOUNT_MAX } from '#server/idempotency/bounds.ts';
import { type KeyBounds, KeyStore } from '#server/idempotency/key-store.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { openSession } from '../support/database.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Kept replies are deleted with the end user or the account that they belong to, and are bounded. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({ upstreams: [{ baseUrl: upstream.baseUrl, routes: RELAYED_ROUTES }] });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

/** An account that keeps replies, and a key of it. */
async function tenant(name: string): Promise<{ id: string; secret: string }> {
  const { id } = await relay.createAccount(name);
  await relay.control((control) => control.overrideTerms(name, { keep_replies: true }, 'keep'));
  return { id, secret: (await relay.createKey({ account: name })).secret };
}

const send = (key: string, idempotencyKey: string, user: string): Promise<ChatReply> =>
  chat({
    port: relay.port,
    key,
    headers: { 'idempotency-key': idempotencyKey, 'x-daybook-user': user },
    body: { model: 's:tokens=2', messages: [{ role: 'user', content: 'hi' }] },
  });

async function query(text: string, values: readonly unknown[] = []): Promise<Record<string, unknown>[]> {
  const client = await openSession(relay.store.config('owner'));
  try {
    return (await client.query<Record<string, unknown>>(text, [...values])).rows;
  } finally {
    await client.end();
  }
}

const keptRequests = async (): Promise<unknown[]> =>
  (await query('select request from daybook.idempotent_reply')).map(({ request }) => request);

const attribution = <T>(use: (control: AttributionControl) => Promise<T>): Promise<T> =>
  withControl(relay.store, 'test', (control, client) =>
    use(new AttributionControl(control, client, 'not needed for pseudonyms')),
  );

const codeOf = ({ body }: ChatReply): unknown =>
  (JSON.parse(body.toString()) as { error: { code: unknown } }).error.code;

test('kept replies are erased with their end user, and with the key of their account', async () => {
  const { secret: key } = await tenant('erased');
  const [ada, grace] = [randomUUID(), randomUUID()];
  const first = await send(key, ada, 'Ada');
  const other = await send(key, grace, 'Grace');
  await until(keptRequests, (kept) => kept.length === 2, 'the kept replies');
  const [pseudonym = ''] = (await relay.readLog()).flatMap(({ event }) =>
    event.type === 'request.accepted' && event.request === first.requestId ? [event.end_user ?? ''] : [],
  );

  await attribution((control) => control.erase('erased', { kind: 'end_user', pseudonym }));
  expect(await keptRequests()).toEqual([other.requestId]);
  expect(codeOf(await send(key, ada, 'Ada'))).toBe('idempotent_reply_unavailable');
  expect((await send(key, grace, 'Grace')).body.toString()).toBe(other.body.toString());

  await attribution((control) => control.destroyKey('erased'));
  expect(await keptRequests()).toEqual([]);
  expect(codeOf(await send(key, grace, 'Grace'))).toBe('idempotent_reply_unavailable');
});

async function bytesOf(account: string): Promise<number> {
  const [row] = await query(
    'select sum(octet_length(sealed)) as bytes from daybook.idempotent_reply where account = $1',
    [account],
  );
  return Number(row?.['bytes']);
}

/** A store with these bounds, and what it needs for a claim of the account. */
async function boundedStore(
  account: string,
  bounds: Partial<KeyBounds>,
): Promise<{ store: KeyStore; claim: () => Promise<string> }> {
  const [row] = await query('select max(id) as id from daybook.instance where dead_at is null');
  const instance = Number(row?.['id']);
  const store = new KeyStore(relay.store.config('relay'), () => {}, {
    ...{ keysPerAccountMax: 1_000, keptBytesPerAccountMax: 1_000, accountsMax: 1_000 },
    ...bounds,
  });
  const claim = async (): Promise<string> => {
    const request = randomUUID();
    const [digest, fingerprint] = [randomBytes(32), randomBytes(32)];
    expect(await store.claim({ digest, account, fingerprint, request, instance, position: 0 })).toBeNull();
    return request;
  };
  return { store, claim };
}

test('an account has room for another key up to its bound, and other accounts have theirs', async () => {
  const [{ id: account }, { id: other }] = [
    await relay.createAccount('one'),
    await relay.createAccount('two'),
  ];
  const { store, claim } = await boundedStore(account, { keysPerAccountMax: 2 });
  try {
    expect(await store.hasRoomForKey(account)).toBe(true);
    await claim();
    expect(await store.hasRoomForKey(account)).toBe(true);
    await claim();
    expect(await store.hasRoomForKey(account)).toBe(false);
    expect(await store.hasRoomForKey(other)).toBe(true);
  } finally {
    await store.close();
  }
});

/** Keys of an account, as requests of a day leave them. */
const addKeys = (account: string, count: number): Promise<unknown> =>
  query(
    `insert into daybook.idempotency_key (digest, account, fingerprint, request, instance, position, state)
     select sha256(n::text::bytea), $1, sha256(''), gen_random_uuid(),
            (select max(id) from daybook.instance where dead_at is null), 0, 1
       from generate_series(1, $2::int) n`,
    [account, count],
  );

test('further keys of an account are a 429 at its bound, and repeats still get their replies', async () => {
  const { id: account, secret } = await tenant('full');
  await addKeys(account, KEYS_PER_ACCOUNT_MAX - 1);
  const last = randomUUID();
  const first = await send(secret, last, 'Ada');
  expect(first.status).toBe(200);
  await until(keptRequests, (kept) => kept.includes(first.requestId), 'the kept reply');
  const rejected = await send(secret, randomUUID(), 'Ada');
  expect([rejected.status, codeOf(rejected)]).toEqual([429, 'too_many_idempotency_keys']);
  expect(rejected.header('retry-after')).toBe('60');
  const again = await send(secret, last, 'Ada');
  expect([again.status, again.header('idempotent-replayed')]).toEqual([200, 'true']);
  expect(again.body.toString()).toBe(first.body.toString());
  const { secret: other } = await tenant('not-full');
  expect((await send(other, randomUUID(), 'Ada')).status).toBe(200);
});

test.each([1, 1_000])(
  'no reply is kept beyond the bound of its account, of %i accounts that are remembered',
  async (accountsMax) => {
    const { id: account, secret } = await tenant(`kept-${accountsMax}`);
    // Its replies are sealed under the key that its first attributed call makes.
    expect((await send(secret, randomUUID(), 'Ada')).status).toBe(200);
    await until(
      () => query('select from daybook.idempotent_reply where account = $1', [account]),
      ({ length }) => length === 1,
      'the kept reply',
    );
    const { id: other } = await relay.createAccount(`another-${accountsMax}`);
    const { store, claim } = await boundedStore(account, {
      keptBytesPerAccountMax: (await bytesOf(account)) + 250,
      accountsMax,
    });
    const requests: string[] = [];
    try {
      for (let index = 0; index < 4; index++) {
        const request = await claim();
        // With room for one account this one is forgotten.
        await store.hasRoomForKey(other);
        const reply = { request, generation: 1, pseudonyms: [], sealed: Buffer.alloc(100) };
        await new Promise<void>((resolve) => store.end(account, request, reply, resolve));
        requests.push(request);
      }
    } finally {
      await store.close();
    }
    const kept = new Set(await keptRequests());
    expect(requests.map((request) => kept.has(request))).toEqual([true, true, false, false]);
    const ended = await query('select state from daybook.idempotency_key where request = any($1)', [
      requests,
    ]);
    expect(ended.map(({ state }) => state)).toEqual([1, 1, 1, 1]);
  },
);

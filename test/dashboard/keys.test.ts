import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import { publicId } from '#db/ids.ts';
import { LEASE_REQUEST_LINES_MAX } from '#server/limits/bounds.ts';
import { KEYS_ACTIVE_MAX } from '#server/decide/bounds.ts';
import { LISTED_MAX } from '#server/contract/parts.ts';
import type { Change, KeyCheckResult, KeyList, CreatedKey, KeyRow } from '#server/contract/keys.ts';
import type { LimitList } from '#server/contract/limits.ts';
import { callDemo, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { openWriter } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type TestRelay, until } from '../support/relay.ts';

/** Keys as people manage them. */

let relay: TestRelay;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;

beforeAll(async () => {
  ({ relay, administrator, auditor, ana, ben } = await startPeopledRelay());
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const call = (secret: string): Promise<string> => callDemo(relay, secret);
async function make(client: SignedInClient, body: object = {}): Promise<CreatedKey> {
  const reply = await client.post<CreatedKey>('/api/v1/keys', { name: 'key', ...body });
  expect(reply.status).toBe(200);
  return reply.body;
}
const look = async (client: SignedInClient, id: string): Promise<KeyRow> =>
  (await client.get<KeyRow>(`/api/v1/keys/${id}`)).body;
const eventsOf = async (id: string): Promise<Placed[]> =>
  (await relay.readLog()).filter(({ stream }) => stream === `key/${id}`);
const rotate = (client: SignedInClient, id: string, overlap_s = 0, rotation = randomUUID()) =>
  client.post<CreatedKey>(`/api/v1/keys/${id}/rotate`, { overlap_s, rotation });

describe('a new key', () => {
  test('is valid at once, is listed without its secret, and its event has the actor', async () => {
    const { id, secret, event } = await make(ana, { name: '  laptop ' });
    expect(await call(secret)).toBe('200');
    const { body } = await ana.get<KeyList>('/api/v1/keys');
    expect(body.data[0]).toMatchObject({
      id,
      account: ana.me.account.id,
      account_name: ana.me.account.name,
      name: 'laptop',
      last4: secret.slice(-4),
      state: 'active',
      terms: null,
    });
    expect(JSON.stringify(body)).not.toContain(secret.slice(13, -4));
    const [created] = await eventsOf(id);
    expect(created).toMatchObject({
      position: event?.position,
      event: { type: 'key.created', actor: `member/${ana.me.member.id}` },
    });
  });

  test('has its terms and its end from the start: no call comes between', async () => {
    const ends = new Date(Date.now() + 3_600_000).toISOString();
    const { id, secret, event } = await make(ana, {
      terms: { models: ['other'], quotas: [{ meter: 'tokens', window: 'day', limit: 10 }] },
      expires_at: ends,
    });
    const [created, restricted] = await eventsOf(id);
    expect([created?.event.type, restricted?.event.type, restricted?.position]).toEqual([
      'key.created',
      'key.restricted',
      event?.position,
    ]);
    expect(restricted?.at).toEqual(created?.at);
    expect(await look(ana, id)).toMatchObject({
      expires_at: ends,
      terms: { models: ['other'], quotas: [{ limit: 10, enforcement: 'soft' }] },
    });
    expect(await call(secret)).toBe('403 model_not_permitted');
  });

  test.each([
    ['an end in the past', { name: 'key', expires_at: '2020-01-01T00:00:00Z' }],
    ['a name of blanks', { name: '  ' }],
    ['terms that are none', { name: 'key', terms: { model: ['x'] } }],
    ['a field too many', { name: 'key', secret: 'mine' }],
  ])('is not made with %s', async (_what, body) => {
    expect(await ana.post('/api/v1/keys', body)).toMatchObject({ status: 400, code: 'invalid_value' });
  });

  test("is for the member's own account; administrators may choose another", async () => {
    expect(await ana.post('/api/v1/keys', { name: 'key', account: ben.me.account.id })).toMatchObject({
      status: 404,
      code: 'not_found',
    });
    const { id } = await make(administrator, { account: ben.me.account.id });
    expect((await look(ben, id)).account).toBe(ben.me.account.id);
  });
});

describe('a key that is changed', () => {
  test('has another name and other terms by one change, and is left alone by the same again', async () => {
    const { id } = await make(ana);
    const change = { name: 'renamed', terms: { requests_per_minute: 5 }, expires_at: null };
    expect((await ana.patch<Change>(`/api/v1/keys/${id}`, change)).body.event?.type).toBe('key.restricted');
    expect((await eventsOf(id)).map(({ event }) => event.type)).toEqual([
      'key.created',
      'key.renamed',
      'key.restricted',
    ]);
    expect((await ana.patch<Change>(`/api/v1/keys/${id}`, change)).body).toEqual({ event: null });
    expect((await ana.patch<Change>(`/api/v1/keys/${id}`, { name: 'again' })).body.event?.type).toBe(
      'key.renamed',
    );
    expect(await look(ana, id)).toMatchObject({ name: 'again', terms: { requests_per_minute: 5 } });
    await ana.patch(`/api/v1/keys/${id}`, { terms: {} });
    expect((await look(ana, id)).terms).toBeNull();
  });

  test('is rejected from the next request on after it is revoked, permanently', async () => {
    const { id, secret } = await make(ana);
    expect((await ana.post<Change>(`/api/v1/keys/${id}/revoke`)).body.event?.type).toBe('key.revoked');
    expect(await call(secret)).toBe('401 api_key_revoked');
    expect((await ana.post<Change>(`/api/v1/keys/${id}/revoke`)).body).toEqual({ event: null });
    expect(await look(ana, id)).toMatchObject({ state: 'revoked' });
    for (const reply of [
      await rotate(ana, id),
      await ana.patch(`/api/v1/keys/${id}`, { name: 'x' }),
      await ana.post(`/api/v1/keys/${id}/leaked`),
    ]) {
      expect(reply).toMatchObject({ status: 409, code: 'not_allowed' });
    }
  });
});

describe('a rotation', () => {
  test('leaves both secrets valid for its overlap, and shows when each was last used', async () => {
    const { id, secret: old } = await make(ana);
    const { body } = await rotate(ana, id, 3_600);
    expect(body.event?.type).toBe('key.rotated');
    // Before any table knows of it.
    expect((await look(ana, id)).rotated_at).toBe((await eventsOf(id)).at(-1)?.at.toISOString());
    expect(await look(ana, id)).toMatchObject({
      state: 'rotating',
      last4: body.secret.slice(-4),
      previous_last4: old.slice(-4),
      last_used_at: null,
      previous_last_used_at: null,
    });
    expect(await call(body.secret)).toBe('200');
    const used = await until(
      () => look(ana, id),
      ({ last_used_at }) => last_used_at !== null,
      'the use of the new secret',
    );
    expect(used.previous_last_used_at).toBeNull();
    expect(await call(old)).toBe('200');
    const both = await until(
      () => look(ana, id),
      ({ previous_last_used_at }) => previous_last_used_at !== null,
      'the use of the old secret',
    );
    expect(both.last_used_at).toBe(used.last_used_at);
  });

  test('shows the earlier use of the old secret', async () => {
    const { id, secret } = await make(ana);
    expect(await call(secret)).toBe('200');
    await rotate(ana, id, 3_600);
    await projectAll(relay.store);
    const row = await look(ana, id);
    expect(row.last_used_at).toBeNull();
    expect(Date.parse(row.previous_last_used_at as string)).toBeLessThanOrEqual(
      Date.parse(row.rotated_at as string),
    );
  });

  test('is made once under its id, however often it is sent', async () => {
    const { id } = await make(ana);
    const rotation = randomUUID();
    const replies = await Promise.all(Array.from({ length: 8 }, () => rotate(ana, id, 0, rotation)));
    const [made] = replies.filter(({ status }) => status === 200);
    expect(replies.filter(({ code }) => code === 'already_done')).toHaveLength(7);
    expect((await eventsOf(id)).filter(({ event }) => event.type === 'key.rotated')).toHaveLength(1);
    expect(await call(made?.body.secret as string)).toBe('200');
  });

  test('after a leak ends every older secret at once, that of an overlap too', async () => {
    const { id, secret: first } = await make(ana);
    const { body: second } = await rotate(ana, id, 3_600);
    const { body: third } = await ana.post<CreatedKey>(`/api/v1/keys/${id}/leaked`);
    expect([await call(first), await call(second.secret), await call(third.secret)]).toEqual([
      '401 invalid_api_key',
      '401 invalid_api_key',
      '200',
    ]);
    expect(await look(ana, id)).toMatchObject({
      state: 'active',
      overlap_ends_at: null,
      previous_last4: null,
    });
  });

  test('may overlap for a month at most', async () => {
    const { id } = await make(ana);
    expect(await rotate(ana, id, 31 * 86_400)).toMatchObject({ status: 400, code: 'invalid_value' });
  });
});

describe('whose keys somebody manages', () => {
  const attempts = (client: SignedInClient, id: string) => [
    client.patch(`/api/v1/keys/${id}`, { name: 'mine' }),
    rotate(client, id),
    client.post(`/api/v1/keys/${id}/leaked`),
    client.post(`/api/v1/keys/${id}/revoke`),
  ];

  test("another account's key looks like none to a member, and nothing happens to it", async () => {
    const { id } = await make(ana);
    const reads = (key: string) => [
      ben.get(`/api/v1/keys/${key}`),
      ben.post(`/api/v1/keys/${key}/check`, { model: 'daybook-demo' }),
    ];
    const foreign = await Promise.all([...attempts(ben, id), ...reads(id)]);
    const unknown = await Promise.all([...attempts(ben, 'Unknown0'), ...reads('Unknown0')]);
    const said = (replies: typeof foreign) =>
      replies.map(({ status, body }) => [status, (body as { error: object }).error]);
    expect(said(foreign)).toEqual(said(unknown));
    expect(foreign.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404, 404]);
    expect(await eventsOf(id)).toHaveLength(1);
    expect(
      (await ben.get<KeyList>('/api/v1/keys')).body.data.every(
        ({ account }) => account === ben.me.account.id,
      ),
    ).toBe(true);
    expect(await ben.get(`/api/v1/keys?account=${ana.me.account.id}`)).toMatchObject({ status: 404 });
  });

  test('auditors see all and change none; administrators change all', async () => {
    const { id } = await make(ana);
    expect((await look(auditor, id)).account_name).toBe(ana.me.account.name);
    for (const reply of await Promise.all(attempts(auditor, id)))
      expect(reply).toMatchObject({ status: 403, code: 'insufficient_role' });
    expect(await eventsOf(id)).toHaveLength(1);
    expect((await administrator.patch<Change>(`/api/v1/keys/${id}`, { name: 'theirs' })).status).toBe(200);
    expect((await eventsOf(id)).at(-1)?.event).toMatchObject({
      actor: `member/${administrator.me.member.id}`,
    });
    const narrowed = await auditor.get<KeyList>(`/api/v1/keys?account=${ben.me.account.id}`);
    expect(new Set(narrowed.body.data.map(({ account }) => account))).toEqual(new Set([ben.me.account.id]));
  });
});

describe('a trial', () => {
  const check = async (id: string, body: object): Promise<KeyCheckResult> =>
    (await ana.post<KeyCheckResult>(`/api/v1/keys/${id}/check`, body)).body;
  const steps = ({ checks }: KeyCheckResult): string[] =>
    checks.map(({ step: what, passed }) => (passed ? what : `${what}!`));

  test('lists the checks of a request up to the one that rejects it, with its error', async () => {
    const { id, secret } = await make(ana, {
      terms: { models: ['daybook-*'], networks: ['10.0.0.0/8'], concurrent_requests: 0 },
    });
    const full = await check(id, { model: 'daybook-demo', address: '10.1.2.3' });
    expect(steps(full)).toEqual([
      'key',
      'account',
      'plan',
      'route',
      'origin',
      'network',
      'model',
      'upstream',
      'price',
      'limits!',
    ]);
    expect(full.allowed).toBe(false);
    expect(steps(await check(id, { model: 'daybook-demo', address: '192.0.2.1' })).at(-1)).toBe('network!');
    expect(steps(await check(id, { model: 'other' })).at(-1)).toBe('model!');
    expect(steps(await check(id, { model: 'daybook-none' })).at(-1)).toBe('upstream!');
    const other = await check(id, { model: 'daybook-demo', route: '/v1/models' });
    expect([other.allowed, steps(other)]).toEqual([true, ['key', 'account', 'plan', 'route', 'origin']]);
    const { checks } = await check(id, { model: 'daybook-demo', address: '127.0.0.2' });
    expect(`${checks.at(-1)?.error?.status} ${checks.at(-1)?.error?.code}`).toBe(await call(secret));
    await ana.post(`/api/v1/keys/${id}/revoke`);
    expect(steps(await check(id, { model: 'daybook-demo' }))).toEqual(['key!']);
  });

  test('rejects an invalid address', async () => {
    const { id } = await make(ana);
    expect(
      await ana.post(`/api/v1/keys/${id}/check`, { model: 'daybook-demo', address: '10.0.0' }),
    ).toMatchObject({ status: 400, code: 'invalid_value' });
  });
});

test('lists show the usage of this month, and search keys by a part of the name literally', async () => {
  const { id, secret } = await make(ben, { name: 'Robot 100%' });
  await call(secret);
  await relay.waitFor((events) =>
    events.some(({ event }) => event.type === 'request.settled' && event.key === id),
  );
  await projectAll(relay.store);
  const found = async (search: string): Promise<string[]> =>
    (await ben.get<KeyList>(`/api/v1/keys?search=${encodeURIComponent(search)}`)).body.data.map(
      (key) => key.id,
    );
  expect(await found('robot 100%')).toEqual([id]);
  expect(await found('%')).toEqual([id]);
  expect(await found('_')).toEqual([]);
  const row = await look(ben, id);
  expect(row.month.requests).toBe(1);
  expect(row.month.tokens).toBeGreaterThan(0);
  expect(row.last_used_at).not.toBeNull();
});

test('an account has at most as many active keys as servers cache, and lists are bounded', async () => {
  const {
    body: { id: account },
  } = await administrator.post<{ id: string }>('/api/v1/accounts', { name: 'crowded' });
  const writer = await openWriter(relay.store);
  try {
    await writer.control(
      Array.from({ length: KEYS_ACTIVE_MAX }, () => ({
        event: {
          type: 'key.created' as const,
          account,
          key: publicId(),
          name: 'key',
          digest: 'a'.repeat(64),
          last4: 'aaaa',
          actor: 'test',
        },
        version: 1,
      })),
    );
  } finally {
    await writer[Symbol.asyncDispose]();
  }
  const listed = await until(
    () => administrator.get<KeyList>('/api/v1/keys'),
    ({ body }) => body.rows_omitted > 0,
    'the list',
  );
  expect(listed.body.data).toHaveLength(LISTED_MAX);
  expect(await administrator.post('/api/v1/keys', { name: 'one more', account })).toMatchObject({
    status: 409,
    code: 'not_allowed',
  });
});

test('of an account with many keys each limit is listed, and each as the store knows it', async () => {
  const {
    body: { id: account },
  } = await administrator.post<{ id: string }>('/api/v1/accounts', { name: 'with many limits' });
  const keys = Array.from({ length: LEASE_REQUEST_LINES_MAX / 2 + 10 }, () => publicId());
  const actor = 'test';
  const writer = await openWriter(relay.store);
  try {
    await writer.control(
      keys.flatMap((key) => [
        {
          event: {
            type: 'key.created' as const,
            account,
            key,
            name: 'key',
            digest: 'a'.repeat(64),
            last4: 'aaaa',
            actor,
          },
          version: 1,
        },
        {
          event: {
            type: 'key.restricted' as const,
            account,
            key,
            terms: { concurrent_requests: 4, requests_per_minute: 60 },
            windows: 'keep' as const,
            actor,
          },
          version: 2,
        },
      ]),
    );
    const { body } = await until(
      () => administrator.get<LimitList>(`/api/v1/limits?account=${account}`),
      (reply) => reply.body.data?.length === 2 * keys.length,
      'all limits',
    );
    expect(new Set(body.data.map(({ subject }) => subject))).toEqual(
      new Set(keys.map((key) => `key/${key}`)),
    );
    const { rows } = await writer.client.query(
      'select distinct subject, meter from daybook.allowance where subject = any($1)',
      [keys.map((key) => `key/${key}`)],
    );
    expect(rows).toHaveLength(2 * keys.length);
  } finally {
    await writer[Symbol.asyncDispose]();
  }
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LimitList, LimitRow } from '#server/contract/limits.ts';
import type { RequestPage, RequestDetail } from '#server/contract/requests.ts';
import { callDemo, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type TestRelay, until } from '../support/relay.ts';

/** How limits stand, as people are shown them: from what enforces. */

let relay: TestRelay;
let administrator: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;
let key: { id: string; secret: string };

beforeAll(async () => {
  ({ relay, administrator, ana, ben } = await startPeopledRelay());
  const quotas = [{ meter: 'requests', window: 'day', limit: 3, enforcement: 'hard' }];
  await administrator.put('/api/v1/plans/daily', { terms: { quotas, concurrent_requests: 4 } });
  await administrator.put(`/api/v1/accounts/${ana.me.account.id}/plan`, { plan: 'daily' });
  key = (await ana.post<typeof key>('/api/v1/keys', { name: 'narrow', terms: { requests_per_minute: 50 } }))
    .body;
  await ana.post('/api/v1/keys', { name: 'plain' });
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const list = (client: SignedInClient, query = '') => client.get<LimitList>(`/api/v1/limits${query}`);
const row = (rows: readonly LimitRow[], window: string): LimitRow | undefined =>
  rows.find((each) => each.window === window);
const call = (): Promise<string> => callDemo(relay, key.secret);

test("limits are the account's and its keys', and follow calls without projections", async () => {
  const { body } = await list(ana);
  const day = new Date(`${body.limits_as_of.slice(0, 10)}T00:00:00Z`);
  const begins = {
    window_started_at: day.toISOString(),
    resets_at: new Date(day.getTime() + 86_400_000).toISOString(),
  };
  expect(body.rows_omitted).toBe(0);
  expect(body.data).toEqual([
    {
      subject: `account/${ana.me.account.id}`,
      key_name: null,
      meter: 'concurrent',
      window: 'none',
      limit: 4,
      used: 0,
      reserved: 0,
      remaining: 4,
      window_started_at: null,
      resets_at: null,
      enforcement: 'soft',
      overdraft: 0,
      overdraft_max: 0,
    },
    {
      subject: `account/${ana.me.account.id}`,
      key_name: null,
      meter: 'requests',
      window: 'day',
      limit: 3,
      used: 0,
      reserved: 0,
      remaining: 3,
      ...begins,
      enforcement: 'hard',
      overdraft: 0,
      overdraft_max: 0,
    },
    expect.objectContaining({
      subject: `key/${key.id}`,
      key_name: 'narrow',
      meter: 'requests',
      window: 'minute',
      limit: 50,
    }),
  ]);
  expect([await call(), await call()]).toEqual(['200', '200']);
  await relay.waitFor(
    (events) => events.filter(({ event }) => event.type === 'request.settled').length === 2,
  );
  expect(row((await list(ana)).body.data, 'day')).toMatchObject({ used: 2, reserved: 0, remaining: 1 });
  expect([await call(), await call()]).toEqual(['200', '429 insufficient_quota']);
  await relay.waitFor(
    (events) => events.filter(({ event }) => event.type === 'request.settled').length === 3,
  );
  expect(row((await list(ana)).body.data, 'day')).toMatchObject({ used: 3, remaining: 0 });
});

test("members see their own account's alone; those who oversee choose the account, or a key", async () => {
  expect((await list(ben)).body.data).toEqual([]);
  for (const query of [`?account=${ana.me.account.id}`, `?key=${key.id}`, '?key=Unknown0'])
    expect(await list(ben, query)).toMatchObject({ status: 404, code: 'not_found' });
  expect((await list(administrator, `?account=${ana.me.account.id}`)).body.data).toHaveLength(3);
  expect(
    (await list(administrator, `?key=${key.id}`)).body.data.map(({ subject }) => subject.split('/')[0]),
  ).toEqual(['account', 'account', 'key']);
  expect((await list(administrator)).body.data).toEqual([]);
  expect(await list(administrator, `?key=${key.id}&account=${ben.me.account.id}`)).toMatchObject({
    status: 404,
    code: 'not_found',
  });
});

test('request detail has the quotas that it was charged to, without removed ones', async () => {
  await administrator.put('/api/v1/plans/daily', {
    terms: { quotas: [{ meter: 'tokens', window: 'month', limit: 1_000_000, enforcement: 'soft' }] },
  });
  await until(
    () => list(ana),
    ({ body }) => body.data.some(({ window }) => window === 'month'),
    'the quota of the month',
  );
  expect(await call()).toBe('200');
  await relay.waitFor(
    (events) => events.filter(({ event }) => event.type === 'request.settled').length === 4,
  );
  await projectAll(relay.store);
  const { data } = (await ana.get<RequestPage>('/api/v1/requests?outcome=completed')).body;
  const quotasOf = async (request: string | undefined) =>
    (await ana.get<RequestDetail>(`/api/v1/requests/${request}`)).body.quotas.map(
      ({ scope, meter, window, used }) => [scope, meter, window, used > 0],
    );
  expect(await quotasOf(data[0]?.request)).toEqual([['account', 'tokens', 'month', true]]);
  expect(await quotasOf(data.at(-1)?.request)).toEqual([['account', 'requests', 'day', true]]);
});

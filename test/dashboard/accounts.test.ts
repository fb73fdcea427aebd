import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed } from '#db/events/events.ts';
import type { AccountList, AccountRow, PlanRow } from '#server/contract/accounts.ts';
import type { Change, KeyCheckResult } from '#server/contract/keys.ts';
import type { PriceRow, PriceImportResult, ModelRow } from '#server/contract/models.ts';
import { callDemo, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { projectAll } from '../support/projections/projected.ts';
import { type TestRelay, until } from '../support/relay.ts';

/** Accounts as administrators manage them, their plans, and which models and prices they have by those. */

let relay: TestRelay;
let administrator: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;

beforeAll(async () => {
  ({ relay, administrator, ana, ben } = await startPeopledRelay());
});
afterAll(() => relay?.[Symbol.asyncDispose]());

type Made = Change & { id: string };
async function make(name: string, plan?: string): Promise<Made> {
  const reply = await administrator.post<Made>('/api/v1/accounts', {
    name,
    ...(plan === undefined ? {} : { plan }),
  });
  expect(reply.status).toBe(200);
  return reply.body;
}
const look = async (id: string): Promise<AccountRow> =>
  (await administrator.get<AccountRow>(`/api/v1/accounts/${id}`)).body;
const newest = async (): Promise<Placed | undefined> =>
  (await relay.readLog()).findLast(({ stream }) => stream?.startsWith('account/'));

type List<T> = { data: T[] };
const plans = async (): Promise<PlanRow[]> =>
  (await administrator.get<List<PlanRow>>('/api/v1/plans')).body.data;
const define = async (name: string, terms: object, windows = 'keep') =>
  (await administrator.put<Change>(`/api/v1/plans/${name}`, { terms, windows })).body.event?.type ?? null;

test('a new account has its plan and creation time before and after the projection has it', async () => {
  await administrator.put('/api/v1/plans/starter', { terms: { requests_per_minute: 100 } });
  const { id, event } = await make('acme', 'starter');
  const events = (await relay.readLog()).filter(({ stream }) => stream === `account/${id}`);
  expect(events.map((each) => each.event.type)).toEqual(['account.registered', 'account.plan_changed']);
  expect(events.at(-1)).toMatchObject({
    position: event?.position,
    event: { actor: `member/${administrator.me.member.id}` },
  });
  const row = {
    id,
    name: 'acme',
    state: 'active',
    plan: 'starter',
    override: null,
    created_at: events[0]?.at.toISOString(),
    members: 0,
    keys: 0,
  };
  expect(await look(id)).toMatchObject(row);
  await projectAll(relay.store);
  expect(await look(id)).toMatchObject(row);
});

test('a name is taken once, and a plan that is not there or retired is none', async () => {
  await make('once');
  expect(await administrator.post('/api/v1/accounts', { name: 'once' })).toMatchObject({
    status: 409,
    code: 'already_exists',
  });
  expect(await administrator.post('/api/v1/accounts', { name: 'planned', plan: 'nowhere' })).toMatchObject({
    status: 404,
    code: 'not_found',
  });
  await administrator.put('/api/v1/plans/former', { terms: {} });
  await administrator.post('/api/v1/plans/former/retire');
  expect(await administrator.post('/api/v1/accounts', { name: 'planned', plan: 'former' })).toMatchObject({
    status: 409,
    code: 'not_allowed',
  });
  expect(await make('planned')).toMatchObject({ event: { type: 'account.registered' } });
});

test('a suspended account is rejected at the next call and served again once reinstated', async () => {
  const { id } = await make('paused');
  const { body: key } = await administrator.post<{ secret: string }>('/api/v1/keys', {
    name: 'key',
    account: id,
  });
  const change = async (what: string) =>
    (await administrator.post<Change>(`/api/v1/accounts/${id}/${what}`)).body.event?.type ?? null;
  expect([await change('suspend'), await change('suspend')]).toEqual(['account.suspended', null]);
  expect(await callDemo(relay, key.secret)).toBe('403 account_disabled');
  expect([await change('reinstate'), await change('reinstate')]).toEqual(['account.reinstated', null]);
  expect(await callDemo(relay, key.secret)).toBe('200');
});

test('plan and override are put, kept where they are the same, and taken away', async () => {
  const { id } = await make('moved');
  await administrator.put('/api/v1/plans/small', { terms: { requests_per_minute: 1 } });
  const put = async (what: 'plan' | 'override', body: object): Promise<string | null> =>
    (await administrator.put<Change>(`/api/v1/accounts/${id}/${what}`, body)).body.event?.type ?? null;
  expect([await put('plan', { plan: 'small' }), await put('plan', { plan: 'small' })]).toEqual([
    'account.plan_changed',
    null,
  ]);
  expect([
    await put('override', { terms: { requests_per_minute: 9 } }),
    await put('override', { terms: { requests_per_minute: 9 } }),
  ]).toEqual(['account.terms_overridden', null]);
  expect(await look(id)).toMatchObject({ plan: 'small', override: { requests_per_minute: 9 } });
  expect(await put('override', { terms: { requests_per_minute: 9 }, windows: 'reset' })).toBe(
    'account.terms_overridden',
  );
  expect((await newest())?.event).toMatchObject({ windows: 'reset' });
  await put('plan', { plan: null });
  await put('override', { terms: {} });
  expect(await look(id)).toMatchObject({ plan: null, override: null });
});

test('an unknown account is reported as not found, not as an internal error', async () => {
  for (const id of ['Unknown0', 'much-too-long', "'; drop"]) {
    const at = `/api/v1/accounts/${encodeURIComponent(id)}`;
    expect(await administrator.get(at)).toMatchObject({ status: 404, code: 'not_found' });
    expect(await administrator.post(`${at}/suspend`)).toMatchObject({ status: 404, code: 'not_found' });
    expect(await administrator.put(`${at}/plan`, { plan: null })).toMatchObject({
      status: 404,
      code: 'not_found',
    });
  }
});

test('a list counts members, active keys and requests of this month, and is searched by name', async () => {
  const { account } = ana.me;
  const { body: key } = await ana.post<{ id: string; secret: string }>('/api/v1/keys', { name: 'key' });
  const { body: ended } = await ana.post<{ id: string }>('/api/v1/keys', { name: 'ended' });
  await ana.post(`/api/v1/keys/${ended.id}/revoke`);
  await callDemo(relay, key.secret);
  await relay.waitFor((events) =>
    events.some(({ event }) => event.type === 'request.settled' && event.key === key.id),
  );
  const { body } = await until(
    async () => {
      // Again, since events of the tests before may be recorded a second later.
      await projectAll(relay.store);
      return administrator.get<AccountList>(
        `/api/v1/accounts?search=${encodeURIComponent(account.name.toUpperCase())}`,
      );
    },
    (reply) => reply.body.behind === 0,
    'the projections',
  );
  expect(body).toMatchObject({
    data: [{ id: account.id, members: 1, keys: 1, month: { requests: 1 } }],
    rows_omitted: 0,
  });
  expect((await administrator.get<AccountList>('/api/v1/accounts?search=%25')).body.data).toEqual([]);
  expect(
    (await administrator.get<AccountList>('/api/v1/accounts')).body.data.map(({ name }) => name),
  ).toContain('first');
});

test('a plan is defined, changed, unchanged by equal terms, and retired permanently', async () => {
  const terms = {
    models: ['daybook-demo'],
    quotas: [{ meter: 'tokens', window: 'month', limit: 1_000, enforcement: 'hard' }],
  };
  expect([
    await define('pro', terms),
    await define('pro', terms),
    await define('pro', { ...terms, concurrent_requests: 2 }),
  ]).toEqual(['plan.defined', null, 'plan.changed']);
  expect(await plans()).toContainEqual({
    name: 'pro',
    terms: { ...terms, concurrent_requests: 2 },
    state: 'active',
    accounts: 0,
    version: 2,
  });
  const retire = () => administrator.post<Change>('/api/v1/plans/pro/retire');
  expect([(await retire()).body.event?.type, (await retire()).body.event]).toEqual(['plan.retired', null]);
  expect(await administrator.put('/api/v1/plans/pro', { terms: {} })).toMatchObject({
    status: 409,
    code: 'not_allowed',
  });
  expect(await administrator.post('/api/v1/plans/none-such/retire')).toMatchObject({
    status: 404,
    code: 'not_found',
  });
});

test.each(['none', 'Upper', 'a b', '-x', 'x'.repeat(65)])('%j names no plan', async (name) => {
  expect(await administrator.put(`/api/v1/plans/${encodeURIComponent(name)}`, { terms: {} })).toMatchObject({
    status: 400,
    code: 'invalid_value',
  });
});

test('invalid terms are rejected with the path of the field', async () => {
  const reply = await administrator.put<{ error: { param: string } }>('/api/v1/plans/odd', {
    terms: { quotas: [{ meter: 'tokens', window: 'year', limit: 1 }] },
  });
  expect(reply).toMatchObject({
    status: 400,
    code: 'invalid_value',
    body: { error: { param: 'terms.quotas.0.window' } },
  });
});

test("an account's models are its plan's, with prices, and empty for a retired plan", async () => {
  const account = ben.me.account.id;
  const models = async (): Promise<ModelRow[]> => (await ben.get<List<ModelRow>>('/api/v1/models')).body.data;
  expect((await models()).map(({ id }) => id)).toEqual([
    'daybook-demo',
    'daybook-demo-cut',
    'daybook-demo-fail',
  ]);
  await define('narrow', { models: ['*-fail'] });
  await administrator.put(`/api/v1/accounts/${account}/plan`, { plan: 'narrow' });
  const base = { input: 1, cache_read: 0, output: 2_500_000, reasoning: 3 };
  expect(
    (await administrator.put<Change>('/api/v1/prices', { model: 'daybook-*', base })).body.event?.type,
  ).toBe('model.priced');
  expect(await models()).toEqual([{ id: 'daybook-demo-fail', upstream: 'demo', price: { base } }]);
  // A key that names more than its plan has gets no more by it.
  const { body: key } = await ben.post<{ id: string }>('/api/v1/keys', {
    name: 'wide',
    terms: { models: ['*'] },
  });
  expect(
    (
      await ben.post<KeyCheckResult>(`/api/v1/keys/${key.id}/check`, { model: 'daybook-demo' })
    ).body.checks.at(-1),
  ).toMatchObject({ step: 'model', passed: false });
  await administrator.post('/api/v1/plans/narrow/retire');
  expect(await models()).toEqual([]);
  expect((await plans()).find(({ name }) => name === 'narrow')).toMatchObject({
    accounts: 1,
    state: 'retired',
  });
});

test('a price is set by hand, unchanged by an equal one, and rejected if invalid', async () => {
  const base = { input: 10, cache_read: 5, output: 20 };
  const set = (body: object) => administrator.put<Change>('/api/v1/prices', body);
  expect([
    (await set({ model: 'mine', base })).body.event?.type,
    (await set({ model: 'mine', base })).body.event,
  ]).toEqual(['model.priced', null]);
  expect((await administrator.get<List<PriceRow>>('/api/v1/prices')).body.data).toContainEqual({
    model: 'mine',
    plan: null,
    base,
    source: 'manual',
    version: 1,
  });
  for (const body of [
    { model: 'a*b', base },
    { model: 'mine', base: { ...base, input: -1 } },
    { model: 'mine', base: { ...base, input: 0.5 } },
    { model: 'mine' },
  ]) {
    expect(await set(body)).toMatchObject({ status: 400, code: 'invalid_value' });
  }
});

test('a price import shows changes first, keeps manual prices, and is idempotent', async () => {
  const base = { input: 1, output: 1 };
  await administrator.put('/api/v1/prices', { model: 'gpt-4o', base });
  const take = async (more: object) =>
    (await administrator.post<PriceImportResult>('/api/v1/prices/import', { providers: ['openai'], ...more }))
      .body;
  const trial = await take({ dry_run: true });
  expect(trial).toMatchObject({
    object: 'price_import',
    providers: ['openai'],
    dry_run: true,
    event: null,
    kept_manual: [{ model: 'gpt-4o', set: { base } }],
  });
  expect(trial.changed.length).toBeGreaterThan(10);
  const taken = await take({ dry_run: false });
  expect(taken).toMatchObject({ changed: trial.changed, event: { type: 'model.priced' } });
  expect(await take({ dry_run: false })).toMatchObject({
    changed: [],
    event: null,
    unchanged: taken.changed.length + taken.unchanged,
  });
  const listed = (await administrator.get<List<PriceRow>>('/api/v1/prices')).body.data;
  expect(listed.find(({ model }) => model === taken.changed[0]?.model)).toMatchObject(
    taken.changed[0]?.after ?? {},
  );
  expect(
    await administrator.post('/api/v1/prices/import', { dry_run: true, providers: ['nobody'] }),
  ).toMatchObject({ status: 404, code: 'not_found' });
});

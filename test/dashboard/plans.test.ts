import { afterAll, beforeAll, expect, test } from 'vitest';
import type { PlanRow, PriceRow, PricesImported } from '#server/dashboard/contract-accounts.ts';
import type { Change, KeyChecked, ModelRow } from '#server/dashboard/contract-keys.ts';
import { addMember, setUp, type SignedInClient } from '../support/dashboard.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/** Plans, and which models and prices an account has by them. */

let relay: TestRelay;
let administrator: SignedInClient;
let member: SignedInClient;

beforeAll(async () => {
  relay = await startRelay();
  administrator = await setUp(relay);
  member = await addMember(relay);
});
afterAll(() => relay?.[Symbol.asyncDispose]());

type List<T> = { data: T[] };
const plans = async (): Promise<PlanRow[]> => (await administrator.get<List<PlanRow>>('/api/plans')).body.data;
const define = async (name: string, terms: object, windows = 'keep') => (await administrator.put<Change>(`/api/plans/${name}`, { terms, windows })).body.event?.type ?? null;

test('a plan is defined, changed, left alone by the same terms, and retired for good', async () => {
  const terms = { models: ['daybook-demo'], quotas: [{ meter: 'tokens', window: 'month', limit: 1_000, enforcement: 'exact' }] };
  expect([await define('pro', terms), await define('pro', terms), await define('pro', { ...terms, concurrent_requests: 2 })]).toEqual(['plan.defined', null, 'plan.changed']);
  expect(await plans()).toContainEqual({ name: 'pro', terms: { ...terms, concurrent_requests: 2 }, state: 'active', accounts: 0, version: 2 });
  const retire = () => administrator.post<Change>('/api/plans/pro/retire');
  expect([(await retire()).body.event?.type, (await retire()).body.event]).toEqual(['plan.retired', null]);
  expect(await administrator.put('/api/plans/pro', { terms: {} })).toMatchObject({ status: 409, code: 'not_allowed' });
  expect(await administrator.post('/api/plans/none-such/retire')).toMatchObject({ status: 404, code: 'not_found' });
});

test.each(['none', 'Upper', 'a b', '-x', 'x'.repeat(65)])('%j names no plan', async (name) => {
  expect(await administrator.put(`/api/plans/${encodeURIComponent(name)}`, { terms: {} })).toMatchObject({ status: 400, code: 'invalid_value' });
});

test('terms that are none are refused with their place', async () => {
  const reply = await administrator.put<{ error: { param: string } }>('/api/plans/odd', { terms: { quotas: [{ meter: 'tokens', window: 'year', limit: 1 }] } });
  expect(reply).toMatchObject({ status: 400, code: 'invalid_value', body: { error: { param: 'terms.quotas.0.window' } } });
});

test("an account's models are those that its plan has, with their prices, and none where the plan is retired", async () => {
  const account = member.me.account.id;
  const models = async (): Promise<ModelRow[]> => (await member.get<List<ModelRow>>('/api/models')).body.data;
  expect((await models()).map(({ id }) => id)).toEqual(['daybook-demo', 'daybook-demo-cut', 'daybook-demo-fail']);
  await define('narrow', { models: ['*-fail'] });
  await administrator.put(`/api/accounts/${account}/plan`, { plan: 'narrow' });
  const prices = { input: 1, cached_input: 0, output: 2_500_000, reasoning: 3 };
  expect((await administrator.put<Change>('/api/prices', { model: 'daybook-*', prices })).body.event?.type).toBe('model.priced');
  expect(await models()).toEqual([{ id: 'daybook-demo-fail', upstream: 'demo', prices }]);
  // A key that names more than its plan has gets no more by it.
  const { body: key } = await member.post<{ id: string }>('/api/keys', { name: 'wide', terms: { models: ['*'] } });
  expect((await member.post<KeyChecked>(`/api/keys/${key.id}/check`, { model: 'daybook-demo' })).body.checks.at(-1)).toMatchObject({ what: 'model', passes: false });
  await administrator.post('/api/plans/narrow/retire');
  expect(await models()).toEqual([]);
  expect((await plans()).find(({ name }) => name === 'narrow')).toMatchObject({ accounts: 1, state: 'retired' });
});

test('a price is set by hand, left alone by the same, and refused where it is none', async () => {
  const prices = { input: 10, cached_input: 5, output: 20, reasoning: 20 };
  const set = (body: object) => administrator.put<Change>('/api/prices', body);
  expect([(await set({ model: 'mine', prices })).body.event?.type, (await set({ model: 'mine', prices })).body.event]).toEqual(['model.priced', null]);
  expect((await administrator.get<List<PriceRow>>('/api/prices')).body.data).toContainEqual({ model: 'mine', prices, source: 'manual', version: 1 });
  for (const body of [{ model: 'a*b', prices }, { model: 'mine', prices: { ...prices, input: -1 } }, { model: 'mine', prices: { ...prices, input: 0.5 } }, { model: 'mine' }]) {
    expect(await set(body)).toMatchObject({ status: 400, code: 'invalid_value' });
  }
});

test('prices of the installed list are shown first, then taken, but those that were set by hand; a second time there is nothing to do', async () => {
  const prices = { input: 1, cached_input: 1, output: 1, reasoning: 1 };
  await administrator.put('/api/prices', { model: 'gpt-4o', prices });
  const take = async (more: object) => (await administrator.post<PricesImported>('/api/prices/import', { providers: ['openai'], ...more })).body;
  const trial = await take({ dry_run: true });
  expect(trial).toMatchObject({ object: 'price_import', providers: ['openai'], dry_run: true, event: null, kept_manual: [{ model: 'gpt-4o', set: prices }] });
  expect(trial.changed.length).toBeGreaterThan(10);
  const taken = await take({ dry_run: false });
  expect(taken).toMatchObject({ changed: trial.changed, event: { type: 'model.priced' } });
  expect(await take({ dry_run: false })).toMatchObject({ changed: [], event: null, unchanged: taken.changed.length + taken.unchanged });
  const listed = (await administrator.get<List<PriceRow>>('/api/prices')).body.data;
  expect(listed.find(({ model }) => model === taken.changed[0]?.model)?.prices).toEqual(taken.changed[0]?.after);
  expect(await administrator.post('/api/prices/import', { dry_run: true, providers: ['nobody'] })).toMatchObject({ status: 404, code: 'not_found' });
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Placed } from '#db/events.ts';
import type { AccountList, AccountRow } from '#server/dashboard/contract-accounts.ts';
import type { Change } from '#server/dashboard/contract-keys.ts';
import { addMember, setUp, type SignedInClient } from '../support/dashboard.ts';
import { projectAll } from '../support/projected.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';

/** Accounts as administrators manage them. */

let relay: TestRelay;
let administrator: SignedInClient;
let member: SignedInClient;

beforeAll(async () => {
  relay = await startRelay();
  administrator = await setUp(relay);
  member = await addMember(relay);
});
afterAll(() => relay?.[Symbol.asyncDispose]());

type Made = Change & { id: string };
async function make(name: string, plan?: string): Promise<Made> {
  const reply = await administrator.post<Made>('/api/accounts', { name, ...(plan === undefined ? {} : { plan }) });
  expect(reply.status).toBe(200);
  return reply.body;
}
const look = async (id: string): Promise<AccountRow> => (await administrator.get<AccountRow>(`/api/accounts/${id}`)).body;
const newest = async (): Promise<Placed | undefined> => (await relay.readLog()).findLast(({ stream }) => stream?.startsWith('account/'));

async function call(secret: string): Promise<string> {
  const body = JSON.stringify({ model: 'daybook-demo', messages: [{ role: 'user', content: 'hi' }] });
  const reply = await fetch(`${relay.baseUrl}/chat/completions`, { method: 'POST', headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' }, body });
  const { error } = (await reply.json()) as { error?: { code: string } };
  return error ? `${reply.status} ${error.code}` : String(reply.status);
}

test('an account is registered, on its plan from the start, with the time that the log has, before and after the tables know of it', async () => {
  await administrator.put('/api/plans/starter', { terms: { requests_per_minute: 100 } });
  const { id, event } = await make('acme', 'starter');
  const events = (await relay.readLog()).filter(({ stream }) => stream === `account/${id}`);
  expect(events.map((each) => each.event.type)).toEqual(['account.registered', 'account.plan_changed']);
  expect(events.at(-1)).toMatchObject({ position: event?.position, event: { actor: `member/${administrator.me.member.id}` } });
  const row = { id, name: 'acme', state: 'active', plan: 'starter', override: null, registered_at: events[0]?.at.toISOString(), members: 0, keys: 0 };
  expect(await look(id)).toMatchObject(row);
  await projectAll(relay.store);
  expect(await look(id)).toMatchObject(row);
});

test('a name is taken once, and a plan that is not there or retired is none', async () => {
  await make('once');
  expect(await administrator.post('/api/accounts', { name: 'once' })).toMatchObject({ status: 409, code: 'already_exists' });
  expect(await administrator.post('/api/accounts', { name: 'planned', plan: 'nowhere' })).toMatchObject({ status: 404, code: 'not_found' });
  await administrator.put('/api/plans/former', { terms: {} });
  await administrator.post('/api/plans/former/retire');
  expect(await administrator.post('/api/accounts', { name: 'planned', plan: 'former' })).toMatchObject({ status: 409, code: 'not_allowed' });
  expect(await make('planned')).toMatchObject({ event: { type: 'account.registered' } });
});

test('an account that is suspended is refused by the next call, and served again once it is reinstated', async () => {
  const { id } = await make('paused');
  const { body: key } = await administrator.post<{ secret: string }>('/api/keys', { name: 'key', account: id });
  const change = async (what: string) => (await administrator.post<Change>(`/api/accounts/${id}/${what}`)).body.event?.type ?? null;
  expect([await change('suspend'), await change('suspend')]).toEqual(['account.suspended', null]);
  expect(await call(key.secret)).toBe('403 account_disabled');
  expect([await change('reinstate'), await change('reinstate')]).toEqual(['account.reinstated', null]);
  expect(await call(key.secret)).toBe('200');
});

test('plan and override are put, kept where they are the same, and taken away', async () => {
  const { id } = await make('moved');
  await administrator.put('/api/plans/small', { terms: { requests_per_minute: 1 } });
  const put = async (what: 'plan' | 'override', body: object): Promise<string | null> => (await administrator.put<Change>(`/api/accounts/${id}/${what}`, body)).body.event?.type ?? null;
  expect([await put('plan', { plan: 'small' }), await put('plan', { plan: 'small' })]).toEqual(['account.plan_changed', null]);
  expect([await put('override', { terms: { requests_per_minute: 9 } }), await put('override', { terms: { requests_per_minute: 9 } })]).toEqual(['account.terms_overridden', null]);
  expect(await look(id)).toMatchObject({ plan: 'small', override: { requests_per_minute: 9 } });
  expect(await put('override', { terms: { requests_per_minute: 9 }, windows: 'reset' })).toBe('account.terms_overridden');
  expect((await newest())?.event).toMatchObject({ windows: 'reset' });
  await put('plan', { plan: null });
  await put('override', { terms: {} });
  expect(await look(id)).toMatchObject({ plan: null, override: null });
});

test('what is no account is told as not found, and is no fault of ours', async () => {
  for (const id of ['Unknown0', 'much-too-long', "'; drop"]) {
    const at = `/api/accounts/${encodeURIComponent(id)}`;
    expect(await administrator.get(at)).toMatchObject({ status: 404, code: 'not_found' });
    expect(await administrator.post(`${at}/suspend`)).toMatchObject({ status: 404, code: 'not_found' });
    expect(await administrator.put(`${at}/plan`, { plan: null })).toMatchObject({ status: 404, code: 'not_found' });
  }
});

test('a list counts members, good keys and the calls of this month, and is searched by name', async () => {
  const { account } = member.me;
  const { body: key } = await member.post<{ id: string; secret: string }>('/api/keys', { name: 'key' });
  const { body: ended } = await member.post<{ id: string }>('/api/keys', { name: 'ended' });
  await member.post(`/api/keys/${ended.id}/revoke`);
  await call(key.secret);
  await relay.waitFor((events) => events.some(({ event }) => event.type === 'request.settled' && event.key === key.id));
  await projectAll(relay.store);
  const { body } = await administrator.get<AccountList>(`/api/accounts?search=${encodeURIComponent(account.name.toUpperCase())}`);
  expect(body).toMatchObject({ data: [{ id: account.id, members: 1, keys: 1, month: { requests: 1 } }], rows_omitted: 0, behind: 0 });
  expect((await administrator.get<AccountList>('/api/accounts?search=%25')).body.data).toEqual([]);
  expect((await administrator.get<AccountList>('/api/accounts')).body.data.map(({ name }) => name)).toContain('first');
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { MANAGEMENT_SCOPES } from '#db/events/management-scopes.ts';
import { publicId } from '#db/ids.ts';
import type { CreatedKey, CreatedManagementKey } from '#server/contract/keys.ts';
import {
  type DashboardClient,
  type SignedInClient,
  startPeopledRelay,
  statuses,
  visit,
} from '../support/dashboard.ts';
import type { TestRelay } from '../support/relay.ts';

/** Changes with `If-Match` and `Idempotency-Key`, as programs send them. */

let relay: TestRelay;
let administrator: SignedInClient;
let secret: string;

beforeAll(async () => {
  ({ relay, administrator } = await startPeopledRelay());
  const made = await administrator.post<CreatedManagementKey>('/api/v1/management-keys', {
    name: 'terraform',
    scopes: MANAGEMENT_SCOPES,
    account: null,
  });
  ({ secret } = made.body);
});
afterAll(() => relay?.[Symbol.asyncDispose]());

const program = (headers: Record<string, string> = {}): DashboardClient =>
  visit(relay, { authorization: `Bearer ${secret}`, origin: '', ...headers });
const ifMatch = (etag: string): DashboardClient => program({ 'if-match': etag });
const once = (key: string): DashboardClient => program({ 'idempotency-key': key });
const limit = (requests_per_minute: number): object => ({ terms: { requests_per_minute } });
const countOf = async (type: string): Promise<number> =>
  (await relay.readLog()).filter(({ event }) => event.type === type).length;

async function createKey(client: DashboardClient = program()): Promise<string> {
  const { body } = await client.post<CreatedKey>('/api/v1/keys', {
    name: 'k',
    account: administrator.me.account.id,
  });
  return `/api/v1/keys/${body.id}`;
}

test('a change with the newest ETag is made and returns the next; with an older one it is 412', async () => {
  const key = await createKey();
  const etag = (await program().get(key)).headers.get('etag') ?? '';
  expect(etag).toBe('"1"');
  const changed = await ifMatch(etag).patch(key, { name: 'renamed' });
  expect([changed.status, changed.headers.get('etag')]).toEqual([200, '"2"']);
  const stale = await ifMatch(etag).patch(key, { name: 'lost' });
  expect([stale.status, stale.code]).toEqual([412, 'precondition_failed']);
  expect((await program().get<{ name: string }>(key)).body.name).toBe('renamed');
  expect((await ifMatch('"1", "2"').patch(key, { name: 'again' })).status).toBe(200);
  expect((await ifMatch('W/"3"').patch(key, { name: 'weak' })).status).toBe(412);
});

test('a stale ETag is 412 also where nothing would change, and of objects that do not exist', async () => {
  const plan = `/api/v1/plans/${publicId().toLowerCase()}`;
  expect((await ifMatch('*').put(plan, limit(1))).status).toBe(412);
  expect((await program().put(plan, limit(1))).headers.get('etag')).toBe('"1"');
  expect((await ifMatch('*').put(plan, limit(1))).body).toEqual({ event: null });
  expect((await ifMatch('"7"').put(plan, limit(1))).status).toBe(412);
});

test('of two programs that decide on the same ETag one is 412', async () => {
  const key = await createKey();
  const replies = await Promise.all(['one', 'other'].map((name) => ifMatch('"1"').patch(key, { name })));
  expect(statuses(replies)).toEqual([200, 412]);
});

test('routing and prices are changed under the ETag of the model that the body names', async () => {
  const priced = (input: number): object => ({ model: 'm', base: { input, output: 1 } });
  const set = await program().put('/api/v1/prices', priced(1));
  expect([set.status, set.headers.get('etag')]).toEqual([200, '"1"']);
  expect((await ifMatch('"2"').put('/api/v1/prices', priced(2))).status).toBe(412);
  expect((await ifMatch('"1"').put('/api/v1/prices', priced(2))).status).toBe(200);
});

test('a route without an ETag rejects If-Match', async () => {
  const reply = await ifMatch('"1"').post('/api/v1/accounts', { name: publicId() });
  expect([reply.status, reply.code]).toEqual([412, 'precondition_failed']);
});

test('a change with an Idempotency-Key is made once, however often it is sent', async () => {
  const before = await countOf('key.created');
  const send = (): ReturnType<DashboardClient['post']> =>
    once('order 1').post('/api/v1/keys', { name: 'once', account: administrator.me.account.id });
  const replies = [...(await Promise.all([send(), send(), send()])), await send()];
  expect(statuses(replies)).toEqual([200, 409, 409, 409]);
  expect(replies.find(({ status }) => status === 409)?.code).toBe('already_done');
  expect(await countOf('key.created')).toBe(before + 1);
});

test('an Idempotency-Key with another request is 422, and of another caller it is another key', async () => {
  const name = publicId();
  expect((await once('order 2').post('/api/v1/accounts', { name })).status).toBe(200);
  expect(await once('order 2').post('/api/v1/accounts', { name: publicId() })).toMatchObject({
    status: 422,
    code: 'idempotency_key_reused',
  });
  const session = Object.assign(visit(relay, { 'idempotency-key': 'order 2' }), {
    cookie: administrator.cookie,
  });
  expect((await session.post('/api/v1/accounts', { name: publicId() })).status).toBe(200);
});

test('a rejected change leaves its Idempotency-Key unused', async () => {
  const plan = publicId().toLowerCase();
  const send = (): ReturnType<DashboardClient['post']> =>
    once('order 3').post(`/api/v1/plans/${plan}/retire`);
  expect((await send()).status).toBe(404);
  await program().put(`/api/v1/plans/${plan}`, limit(1));
  expect((await send()).status).toBe(200);
});

test('a malformed Idempotency-Key, and one that a route does not take, is 400', async () => {
  const rejected = { status: 400, code: 'invalid_idempotency_key' };
  expect(await once('é').post('/api/v1/accounts', { name: 'x' })).toMatchObject(rejected);
  expect(await once('a').put('/api/v1/statement-emails/schedule', { enabled: true, day: 1 })).toMatchObject(
    rejected,
  );
});

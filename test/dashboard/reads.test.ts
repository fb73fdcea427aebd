import { afterAll, beforeAll, expect, test } from 'vitest';
import { READS_PER_KEY_MAX } from '#server/read/bounds.ts';
import type { RequestPage, RequestDetail } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';
import { type SignedInClient, startPeopledRelay, visit } from '../support/dashboard.ts';
import { accepted, connectAs, openWriter, settled, type Writer } from '../support/log/log-writer.ts';
import { projectAll } from '../support/projections/projected.ts';
import { readerWith } from '../support/reader.ts';
import type { TestRelay } from '../support/relay.ts';

/** What people who are signed in read of usage and requests. */

let relay: TestRelay;
let writer: Writer;
let administrator: SignedInClient;
let auditor: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;
const calls = new Map<string, ReturnType<typeof accepted>>();

beforeAll(async () => {
  ({ relay, administrator, auditor, ana, ben } = await startPeopledRelay());
  writer = await openWriter(relay.store);
  for (const { me } of [ana, ben]) {
    const { id: key } = await relay.createKey({ account: me.account.name });
    const call = accepted({ account: me.account.id, key });
    calls.set(me.account.id, call);
    await writer.append([call]);
    const costs = { cost_nanousd: 70, upstream_cost_nanousd: 90, stated_cost_nanousd: 50 };
    await writer.append([settled(call, { ...costs, usage_source: 'counted' })]);
  }
  await projectAll(relay.store);
});

afterAll(async () => {
  await writer?.[Symbol.asyncDispose]();
  await relay?.[Symbol.asyncDispose]();
});

const callOf = ({ me }: SignedInClient): ReturnType<typeof accepted> =>
  calls.get(me.account.id) as ReturnType<typeof accepted>;
const listed = async (client: SignedInClient, query = ''): Promise<string[]> =>
  (await client.get<RequestPage>(`/api/v1/requests${query}`)).body.data.map(({ request }) => request);

test('members see requests and usage of their account, overseers of all', async () => {
  const [anas, bens] = [callOf(ana).request, callOf(ben).request];
  expect(await listed(ana)).toEqual([anas]);
  expect(await listed(ana, `?account=${ben.me.account.id}`)).toEqual([]);
  expect(await listed(ana, `?key=${callOf(ben).key}`)).toEqual([]);
  for (const overseer of [administrator, auditor]) {
    expect(await listed(overseer)).toEqual([bens, anas]);
    expect(await listed(overseer, `?account=${ana.me.account.id}`)).toEqual([anas]);
  }
  const used = async (client: SignedInClient, query = ''): Promise<[unknown, number]> => {
    const { body } = await client.get<UsageReport>(`/api/v1/usage${query}`);
    return [body.scope, body.totals.requests];
  };
  expect(await used(ana)).toEqual([{ account: ana.me.account.id, key: null }, 1]);
  expect((await used(ana, `?account=${ben.me.account.id}`))[1]).toBe(0);
  expect(await used(auditor)).toEqual([{ account: null, key: null }, 2]);
});

test('members see charges only; administrators and auditors see the upstream cost too', async () => {
  const { request } = callOf(ana);
  const events = ['/api/v1/events?type=request', '/api/v1/events.ndjson?type=request'];
  const paths = [
    '/api/v1/requests',
    `/api/v1/requests/${request}`,
    '/api/v1/usage?group_by=model',
    '/api/v1/usage',
  ];
  for (const path of [...paths, '/api/v1/requests?format=csv', '/api/v1/usage?format=csv', ...events]) {
    const text = async (client: SignedInClient): Promise<string> =>
      JSON.stringify((await client.get(path)).body);
    expect(await text(ana)).not.toMatch(/upstream_cost|stated_cost/);
    expect(await text(ana)).toMatch(/cost_nanousd/);
    for (const overseer of [administrator, auditor])
      expect(await text(overseer)).toMatch(/upstream_cost_nanousd/);
  }
  const { body: own } = await ana.get<UsageReport>('/api/v1/usage');
  expect(own.totals).toMatchObject({ cost_nanousd: '70', estimated: 1, estimated_cost_nanousd: '70' });
  const { body: all } = await auditor.get<UsageReport>('/api/v1/usage');
  expect(all.totals).toMatchObject({ cost_nanousd: '140', upstream_cost_nanousd: '180' });
  const { body: page } = await auditor.get<RequestPage>('/api/v1/requests');
  expect(page.data[0]).toMatchObject({ cost_nanousd: 70, upstream_cost_nanousd: 90 });
});

test("a member reads details of own requests; another account's are not found", async () => {
  const own = await ana.get<RequestDetail>(`/api/v1/requests/${callOf(ana).request}`);
  expect([own.status, own.body.events.map(({ type }) => type)]).toEqual([
    200,
    ['request.accepted', 'request.settled'],
  ]);
  const others = await ana.get<{ error: { message: string } }>(`/api/v1/requests/${callOf(ben).request}`);
  const nobodys = await ana.get<{ error: { message: string } }>(
    '/api/v1/requests/01a1fffd-088e-7242-bbde-9aba9931f5b9',
  );
  expect([others.status, others.code]).toEqual([404, 'request_not_found']);
  expect(others.body.error.message).toBe(nobodys.body.error.message);
  expect((await administrator.get(`/api/v1/requests/${callOf(ben).request}`)).status).toBe(200);
});

test('what is read signed in is what a key reads that reads its account, in JSON and CSV alike', async () => {
  const { id, secret } = await relay.createKey({ account: ana.me.account.name });
  await relay.control((control) =>
    control.restrictKey(id, {
      set: { reads: 'account' },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  await projectAll(relay.store);
  const reader = readerWith(relay.port, secret);
  const { from: _, scanned_from: __, ...page } = (await ana.get<RequestPage>('/api/v1/requests')).body;
  expect(await reader.list()).toMatchObject(page);
  const { body: report } = await ana.get<UsageReport>('/api/v1/usage?group_by=key');
  const { from: ___, to: ____, ...told } = report;
  expect(await reader.usage('?group_by=key')).toMatchObject(told);
  // The limits of a key are no part of it.
  expect(Object.keys(report)).not.toContain('limits');
  for (const path of ['/requests?format=csv', '/usage?group_by=model&format=csv']) {
    expect((await ana.get<string>(`/api/v1${path}`)).body).toBe((await reader.get(`/v1${path}`)).text);
  }
});

test("reads require a session, the dashboard's own origin and valid parameters", async () => {
  const paths = [
    '/api/v1/requests',
    '/api/v1/usage',
    `/api/v1/requests/${callOf(ana).request}`,
    '/api/v1/events',
    '/api/v1/events.ndjson',
  ];
  const foreign = visit(relay, { 'sec-fetch-site': 'cross-site' });
  foreign.cookie = ana.cookie;
  for (const path of paths) {
    expect((await visit(relay).get(path)).code).toBe('unauthenticated');
    expect((await foreign.get(path)).code).toBe('cross_site_request');
  }
  for (const path of [
    '/api/v1/requests?nonsense=1',
    '/api/v1/usage?bucket=year',
    '/api/v1/events?type=no.such',
    '/api/v1/events?cursor=x',
    '/api/v1/events.ndjson?limit=0',
  ]) {
    const { status, code } = await ana.get(path);
    expect([path, status, code]).toEqual([path, 400, 'invalid_value']);
  }
  // A page elsewhere may not read what goes with a cookie.
  expect((await ana.get('/api/v1/requests')).headers.get('access-control-allow-origin')).toBeNull();
});

test('a person has so many places among the readers, and a key of their account others', async () => {
  const { secret } = await relay.createKey({ account: ana.me.account.name });
  const holder = await connectAs(relay.store, 'worker');
  try {
    await holder.query('begin; lock table projection.request in access exclusive mode');
    const reads = Array.from({ length: READS_PER_KEY_MAX + 1 }, () => ana.get('/api/v1/requests'));
    const refused = await Promise.race(reads);
    expect([refused.status, refused.code]).toEqual([429, 'rate_limit_exceeded']);
    const byKey = readerWith(relay.port, secret).get('/v1/requests?limit=1');
    await holder.query('commit');
    expect((await Promise.all(reads)).filter(({ status }) => status === 200)).toHaveLength(READS_PER_KEY_MAX);
    expect((await byKey).status).toBe(200);
  } finally {
    await holder.end();
  }
});

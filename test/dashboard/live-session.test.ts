import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { SESSION_CHECK_MS } from '#server/feed/bounds.ts';
import { CLOSE_CODES } from '#server/contract/live-protocol.ts';
import { chat } from '../support/client.ts';
import { addMember, signIn, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { connectAs } from '../support/log/log-writer.ts';
import { type LiveViewer, lookOn, refusedLook } from '../support/live.ts';
import type { TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** The live feed as the dashboard's page has it: by a session, over real sockets. */

let upstream: ScriptedUpstream;
let relay: TestRelay;
let administrator: SignedInClient;
let ana: SignedInClient;
let ben: SignedInClient;

beforeAll(async () => {
  upstream = await startUpstream();
  ({ relay, administrator, ana, ben } = await startPeopledRelay({ upstreams: [upstream] }));
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const wayIn = ({ cookie, origin }: SignedInClient) => ({
  port: relay.port,
  path: '/api/v1/live' as const,
  headers: { cookie },
  origin,
});
const look = (client: SignedInClient, query = ''): Promise<LiveViewer> => lookOn({ ...wayIn(client), query });
const kinds = (viewer: LiveViewer): string[] => viewer.frames('notice').map(({ kind }) => kind);
/**
 * An event that everybody sees who sees all accounts, or this one: what came before it has been told, or
 * never will be.
 */
async function mark(account: string): Promise<number> {
  await relay.createKey({ account });
  return (await relay.readLog()).at(-1)?.position ?? 0;
}

test("members see the calls of their own account alone, and those who oversee see everybody's", async () => {
  const secrets: string[] = [];
  for (const { me } of [ana, ben]) secrets.push((await relay.createKey({ account: me.account.name })).secret);
  await using anas = await look(ana);
  await using all = await look(administrator);
  const requests: (string | null)[] = [];
  for (const key of secrets)
    requests.push(
      (await chat({ port: relay.port, key, body: { model: 'ok', messages: [], user: 'somebody' } }))
        .requestId,
    );
  await all.sees(({ frames }) => frames('settled').length === 2);
  const end = await mark(ana.me.account.name);
  await anas.sees(({ position }) => position >= end);
  const settled = (viewer: LiveViewer): string[] => viewer.frames('settled').map(({ request }) => request);
  expect(settled(all)).toEqual(requests);
  expect(settled(anas)).toEqual([requests[0]]);
  expect(anas.frames('hello')).toMatchObject([{ account: ana.me.account.id, key: null }]);
  expect(all.frames('hello')).toMatchObject([{ account: null, key: null }]);
});

test('joining, leaving and signing in are shown to the account and to overseers, never to keys', async () => {
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
  await using key = await lookOn({ port: relay.port, key: secret });
  await using anas = await look(ana);
  await using bens = await look(ben);
  await using all = await look(administrator);
  await addMember(relay, { account: ana.me.account.id });
  await administrator.put('/api/v1/registration', { policy: 'closed', plan: null });
  await signIn(relay, ben.email);
  const [anasEnd, bensEnd] = [await mark(ana.me.account.name), await mark(ben.me.account.name)];
  for (const viewer of [key, anas]) await viewer.sees(({ position }) => position >= anasEnd);
  for (const viewer of [bens, all]) await viewer.sees(({ position }) => position >= bensEnd);

  expect(kinds(all)).toEqual([
    'invitation.created',
    'member.added',
    'session.opened',
    'registration.changed',
    'session.opened',
    'key.created',
    'key.created',
  ]);
  expect(kinds(anas)).toEqual(['member.added', 'session.opened', 'key.created']);
  expect(kinds(bens)).toEqual(['session.opened', 'key.created']);
  expect(kinds(key)).toEqual(['key.created']);
  // What was missed is told by the same rule as what is new.
  const [{ position: after } = { position: 0 }] = key.frames('hello');
  await using again = await lookOn({ port: relay.port, key: secret, query: `after=${after}` });
  await again.sees(({ position }) => position >= anasEnd);
  expect(kinds(again)).toEqual(['key.created']);
});

test('the feed rejects other sites, missing origins and missing sessions', async () => {
  const own = wayIn(ana);
  const foreign = [
    { ...own, origin: 'https://elsewhere.example' },
    { ...own, origin: `http://localhost:${relay.port}` },
    { ...own, origin: `http://127.0.0.1:${relay.port + 1}` },
    { ...own, origin: 'null' },
    { ...own, origin: undefined },
    { ...own, headers: { ...own.headers, 'sec-fetch-site': 'cross-site' } },
    { ...own, headers: { ...own.headers, 'sec-fetch-site': 'same-site' } },
  ];
  for (const { origin, ...options } of foreign) {
    const { status, code } = await refusedLook({ ...options, ...(origin === undefined ? {} : { origin }) });
    expect([origin, status, code]).toEqual([origin, 403, 'cross_site_request']);
  }
  for (const headers of [{}, { cookie: 'daybook=nothing' }])
    expect(await refusedLook({ ...own, headers })).toMatchObject({ status: 401, code: 'unauthenticated' });
  // A cookie is no key, and a key no cookie.
  expect(await refusedLook({ ...own, path: '/v1/live' })).toMatchObject({
    status: 401,
    code: 'missing_api_key',
  });
  expect(await refusedLook({ ...own, headers: {}, key: relay.key })).toMatchObject({
    status: 401,
    code: 'unauthenticated',
  });
  const plain = await ana.get('/api/v1/live');
  expect([plain.status, plain.code]).toEqual([426, 'upgrade_required']);
});

test('a feed ends with its session, and with its member', async () => {
  const carl = await addMember(relay);
  const elsewhere = await signIn(relay, carl.email);
  await using here = await look(carl);
  await using there = await look(elsewhere);
  await elsewhere.delete('/api/v1/session');
  expect(await there.closed).toMatchObject({ code: CLOSE_CODES.not_authenticated });
  expect(here.socket.readyState).toBe(here.socket.OPEN);
  const id = carl.me.member.id;
  await administrator.delete(`/api/v1/members/${id}`);
  expect(await here.closed).toMatchObject({ code: CLOSE_CODES.not_authenticated });
  expect(await refusedLook(wayIn(carl))).toMatchObject({ status: 401, code: 'unauthenticated' });
});

test('a feed ends when its session expires, which appends no event', async () => {
  const emil = await addMember(relay);
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  const owner = await connectAs(relay.store, 'owner');
  try {
    await using viewer = await look(emil);
    await vi.advanceTimersByTimeAsync(SESSION_CHECK_MS);
    expect((await emil.get('/api/v1/me')).status).toBe(200);
    expect(viewer.socket.readyState).toBe(viewer.socket.OPEN);
    await owner.query("update daybook.session set expires_at = now() - interval '1 second' where id = $1", [
      emil.me.session,
    ]);
    await vi.advanceTimersByTimeAsync(SESSION_CHECK_MS);
    expect(await viewer.closed).toMatchObject({ code: CLOSE_CODES.not_authenticated });
  } finally {
    vi.useRealTimers();
    await owner.end();
  }
});

test('who is given another role comes again, and goes on by it', async () => {
  const dora = await addMember(relay);
  const before = await look(dora);
  const { position } = before;
  await administrator.patch(`/api/v1/members/${dora.me.member.id}`, { role: 'auditor' });
  expect(await before.closed).toMatchObject({ code: CLOSE_CODES.going_away });
  await using after = await look(dora, `after=${position}`);
  expect(after.frames('hello')).toMatchObject([{ account: null }]);
});

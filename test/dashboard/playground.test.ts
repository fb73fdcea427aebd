import { afterAll, beforeAll, expect, test } from 'vitest';
import { addMember, type SignedInClient, startPeopledRelay } from '../support/dashboard.ts';
import { type ChatReply, chat } from '../support/client.ts';
import { footprint, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Calls by people who are signed in, with a key of their account and without its secret. */

const PATH = '/api/v1/playground/chat/completions';

let upstream: ScriptedUpstream;
let relay: TestRelay;
let administrator: SignedInClient;
let ana: SignedInClient;
let key: { id: string; secret: string };

beforeAll(async () => {
  upstream = await startUpstream();
  ({ relay, administrator, ana } = await startPeopledRelay({ upstreams: [upstream] }));
  key = await relay.createKey({ account: ana.me.account.name });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type Tried = { id?: string; model?: string; stream?: boolean; headers?: Record<string, string> } & Pick<
  Parameters<typeof chat>[0],
  'abortAfterTokens'
>;

const attempt = (
  client: SignedInClient,
  { id = key.id, model = 's:tokens=3', stream = true, headers, ...more }: Tried = {},
): Promise<ChatReply> =>
  chat({
    port: relay.port,
    path: PATH,
    headers: { cookie: client.cookie, origin: client.origin, 'x-daybook-key': id, ...headers },
    body: { model, stream, messages: [{ role: 'user', content: 'x' }], user: 'somebody' },
    ...more,
  });
const codeOf = ({ body }: ChatReply): string =>
  (JSON.parse(body.toString()) as { error: { code: string } }).error.code;

test("a playground call is recorded and streamed exactly as the key's own call", async () => {
  const model = 's:tokens=5';
  const [tried, called] = [
    await attempt(ana, { model }),
    await chat({
      port: relay.port,
      key: key.secret,
      body: { model, stream: true, messages: [{ role: 'user', content: 'x' }], user: 'somebody' },
    }),
  ];
  expect(tried.status).toBe(200);
  // Of two calls each has an id and a time of its own.
  const plain = ({ body, upstreamId }: ChatReply): string =>
    body
      .toString()
      .replaceAll(upstreamId ?? '', '')
      .replaceAll(/"created":\d+/g, '"created":0');
  expect(plain(tried)).toBe(plain(called));
  expect(tried.header('content-type')).toBe(called.header('content-type'));
  expect(tried.header('access-control-allow-origin')).toBeNull();
  const log = await relay.waitFor((events) =>
    events.some(({ event }) => event.type === 'request.settled' && event.request === tried.requestId),
  );
  const own = log.flatMap(({ event }) =>
    'request' in event && event.request === tried.requestId ? [event] : [],
  );
  expect(own).toMatchObject([
    { type: 'request.accepted', account: ana.me.account.id, key: key.id, model },
    {
      type: 'request.settled',
      account: ana.me.account.id,
      key: key.id,
      end_reason: 'completed',
      usage_source: 'provider',
      output_tokens: 5,
    },
  ]);
});

test('who leaves in the middle ends the call at the upstream, as anywhere', async () => {
  const left = await attempt(ana, { model: 's:tokens=500,every=10ms', abortAfterTokens: 2 });
  expect(left.requestId).not.toBeNull();
  const log = await relay.waitFor((events) =>
    events.some(({ event }) => event.type === 'request.settled' && event.request === left.requestId),
  );
  expect(
    log.find(({ event }) => event.type === 'request.settled' && event.request === left.requestId)?.event,
  ).toMatchObject({ end_reason: 'client_disconnected' });
});

test('what the key may not do it may not do here, and it is recorded as refused', async () => {
  const narrow = await relay.createKey({ account: ana.me.account.name });
  await relay.control((control) =>
    control.restrictKey(narrow.id, {
      set: { models: ['ok'] },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  const refused = await attempt(ana, { id: narrow.id });
  expect([refused.status, codeOf(refused)]).toEqual([403, 'model_not_permitted']);
  expect((await attempt(ana, { id: narrow.id, model: 'ok', stream: false })).status).toBe(200);
  await relay.waitFor((events) =>
    events.some(({ event }) => event.type === 'request.rejected' && event.key === narrow.id),
  );
  await relay.control((control) => control.revokeKey(narrow.id));
  const revoked = await attempt(ana, { id: narrow.id, model: 'ok' });
  expect([revoked.status, codeOf(revoked)]).toEqual([401, 'api_key_revoked']);
});

test("rejects other accounts' keys, auditors, other sites and missing sessions", async () => {
  const auditor = await addMember(relay, { role: 'auditor', account: ana.me.account.id });
  const before = await footprint(relay, upstream);
  const refusals: [ChatReply, number, string][] = [
    [await attempt(administrator), 404, 'not_found'],
    [await attempt(ana, { id: 'NoSuchKy' }), 404, 'not_found'],
    [await attempt(auditor), 403, 'insufficient_role'],
    [await attempt(ana, { headers: { origin: 'https://elsewhere.example' } }), 403, 'cross_site_request'],
    [await attempt(ana, { headers: { 'sec-fetch-site': 'cross-site' } }), 403, 'cross_site_request'],
    [await attempt({ ...ana, cookie: '' }), 401, 'unauthenticated'],
    // The secret is no way in here either.
    [
      await attempt({ ...ana, cookie: '' }, { headers: { authorization: `Bearer ${key.secret}` } }),
      401,
      'invalid_management_key',
    ],
  ];
  for (const [reply, status, code] of refusals) expect([reply.status, codeOf(reply)]).toEqual([status, code]);
  // And a key's id is no credential anywhere else.
  const elsewhere = await chat({
    port: relay.port,
    headers: { cookie: ana.cookie, 'x-daybook-key': key.id },
    body: { model: 'ok', messages: [] },
  });
  expect([elsewhere.status, codeOf(elsewhere)]).toEqual([401, 'missing_api_key']);
  const after = await footprint(relay, upstream);
  expect(after.forwarded).toBe(before.forwarded);
});

test('it ends with the session that it was made in, or when its maker may make calls no more', async () => {
  const leaving = await addMember(relay, { account: ana.me.account.id });
  const demoted = await addMember(relay, { account: ana.me.account.id });
  const model = 's:tokens=500,every=20ms';
  const running = [
    attempt(leaving, { model }),
    attempt(demoted, { model }),
    attempt(ana, { model: 's:tokens=40,every=20ms' }),
  ];
  await relay.waitFor(
    (events) =>
      events.filter(({ event }) => event.type === 'request.accepted' && event.model === model).length === 2,
  );
  expect((await leaving.delete('/api/v1/session')).status).toBe(200);
  expect(
    (await administrator.patch(`/api/v1/members/${demoted.me.member.id}`, { role: 'auditor' })).status,
  ).toBe(200);
  const requests = (await Promise.all(running)).map(({ requestId }) => requestId);
  const endOf = (request: string | null) =>
    log.flatMap(({ event }) =>
      event.type === 'request.settled' && event.request === request ? [event.end_reason] : [],
    );
  const log = await relay.waitFor((events) =>
    requests.every((request) =>
      events.some(({ event }) => event.type === 'request.settled' && event.request === request),
    ),
  );
  expect(requests.map(endOf)).toEqual([['access_revoked'], ['access_revoked'], ['completed']]);
});

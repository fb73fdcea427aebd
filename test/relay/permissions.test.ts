import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { KeyTerms, PlanTerms } from '#db/events/events.ts';
import { chat, type ChatReply } from '../support/client.ts';
import { type ErrorObject, expectRefusal } from '../support/wire/raw-http.ts';
import { changeControl, startRelay, type TestRelay, until } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** What plans and keys permit, over real sockets; the rules themselves are in the unit tests. */

const PAGE = 'https://app.example.com';

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, models: ['ok', 'other', 's:*'] }],
    env: { TRUSTED_PROXIES: '127.0.0.0/8, ::1' },
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

type CallOptions = { model?: string; headers?: Record<string, string> };
const call = (key: string, { model = 'ok', headers = {} }: CallOptions = {}): Promise<ChatReply> =>
  chat({ port: relay.port, key, headers, body: { model, messages: [] } });

const listModels = (key: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(`${relay.baseUrl}/models`, { headers: { authorization: `Bearer ${key}`, ...headers } });
const modelNames = async (key: string): Promise<string[]> =>
  ((await (await listModels(key)).json()) as { data: { id: string }[] }).data.map(({ id }) => id);

/** Makes a call that is to be refused, and not to be forwarded. */
async function refused(
  key: string,
  code: string,
  options: CallOptions = {},
): Promise<ErrorObject & { reply: ChatReply }> {
  const { attempts, visits } = upstream.ledger;
  const before = attempts.length + visits.length;
  const reply = await call(key, options);
  const error = expectRefusal(
    { status: reply.status ?? 0, headers: reply.headers, body: reply.body },
    403,
    code,
  );
  expect(error.type).toBe('permission_error');
  expect(attempts.length + visits.length).toBe(before);
  return { ...error, reply };
}

const accepted = async (key: string, options: CallOptions = {}): Promise<void> =>
  expect((await call(key, options)).status).toBe(200);

/** An account on a plan of its own, with a key. */
async function onPlan(name: string, terms: PlanTerms): Promise<{ id: string; secret: string }> {
  await relay.createAccount(name);
  await define(name, terms);
  await relay.control((control) => control.setPlan(name, name, 'keep'));
  return relay.createKey({ account: name });
}
const define = (name: string, terms: PlanTerms): Promise<unknown> =>
  relay.control((control) => control.definePlan(name, terms, 'keep'));
const restrict = (id: string, set: KeyTerms): Promise<unknown> =>
  relay.control((control) =>
    control.restrictKey(id, { set, drop: [], clear: true, expiresAt: undefined, windows: 'keep' }),
  );

describe('each thing that may not be called is a 403 of its own', () => {
  test('a model, with the field; whether or not anyone serves it', async () => {
    const { secret } = await onPlan('models', { models: ['ok', 'nobody-*'] });
    await accepted(secret);
    const error = await refused(secret, 'model_not_permitted', { model: 'other' });
    expect([error.param, error.message]).toEqual([
      'model',
      expect.stringMatching(/"other".*administrator/) as string,
    ]);
    await refused(secret, 'model_not_permitted', { model: 'never-heard-of' });
    expect((await call(secret, { model: 'nobody-serves' })).status).toBe(404);
  });

  test('a route', async () => {
    const { id, secret } = await onPlan('routes', { routes: ['/v1/models'] });
    expect((await refused(secret, 'route_not_permitted')).message).toContain('/v1/chat/completions');
    expect((await listModels(secret)).status).toBe(200);
    await define('routes', {});
    await restrict(id, { routes: ['/v1/chat/completions'] });
    await accepted(secret);
    const list = await listModels(secret);
    expect([list.status, await list.json()]).toMatchObject([403, { error: { code: 'route_not_permitted' } }]);
  });

  test('a page on another origin, which can read why', async () => {
    const { secret } = await onPlan('origins', { origins: [PAGE] });
    await accepted(secret, { headers: { origin: PAGE } });
    const { message, reply } = await refused(secret, 'origin_not_allowed', {
      headers: { origin: 'https://evil.example' },
    });
    expect(message).toContain('https://evil.example');
    expect([
      reply.header('access-control-allow-origin'),
      reply.header('access-control-expose-headers'),
    ]).toEqual(['*', expect.stringContaining('x-request-id') as string]);
    const list = await listModels(secret, { origin: 'https://evil.example' });
    expect([list.status, list.headers.get('access-control-allow-origin')]).toEqual([403, '*']);
  });

  test('a program without an origin, where only pages are permitted', async () => {
    const { id, secret } = await relay.createKey();
    await restrict(id, { origins: [PAGE] });
    const { message, reply } = await refused(secret, 'origin_not_allowed');
    expect(message).toMatch(/no Origin header/);
    expect(reply.header('access-control-allow-origin')).toBeNull();
    await restrict(id, { origins: [PAGE, 'none'] });
    await accepted(secret);
  });

  test('an address, as a trusted proxy reports it', async () => {
    const { id, secret } = await relay.createKey();
    await restrict(id, { networks: ['198.51.100.0/24', '2001:db8::/32'] });
    expect((await refused(secret, 'network_not_allowed')).message).toContain('127.0.0.1');
    await refused(secret, 'network_not_allowed', { headers: { 'x-forwarded-for': '203.0.113.9' } });
    await refused(secret, 'network_not_allowed', {
      headers: { 'x-forwarded-for': '198.51.100.7, 203.0.113.9' },
    });
    await accepted(secret, { headers: { 'x-forwarded-for': '203.0.113.9, 198.51.100.7, 127.0.0.2' } });
    await accepted(secret, { headers: { 'x-forwarded-for': '[2001:db8::7]:4711' } });
  });

  test('anything on a retired plan, until the account is on another', async () => {
    const { secret } = await onPlan('old', {});
    await accepted(secret);
    await relay.control((control) => control.retirePlan('old'));
    expect((await refused(secret, 'plan_not_active')).message).toContain('"old"');
    await relay.control((control) => control.setPlan('old', null, 'keep'));
    await accepted(secret);
  });
});

test('an address that a stranger claims counts for nothing where no proxy is trusted', async () => {
  await using plain = await startRelay({ upstreams: [upstream] });
  const { id, secret } = await plain.createKey();
  await plain.control((control) =>
    control.restrictKey(id, {
      set: { networks: ['198.51.100.0/24'] },
      drop: [],
      clear: false,
      expiresAt: undefined,
      windows: 'keep',
    }),
  );
  const reply = await chat({
    port: plain.port,
    key: secret,
    headers: { 'x-forwarded-for': '198.51.100.7' },
    body: { model: 'ok', messages: [] },
  });
  expectRefusal(
    { status: reply.status ?? 0, headers: reply.headers, body: reply.body },
    403,
    'network_not_allowed',
  );
});

test('the list of models has just those that account and key may use', async () => {
  expect(await modelNames(relay.key)).toEqual(expect.arrayContaining(['ok', 'other', 'daybook-demo']));
  const { id, secret } = await onPlan('list', { models: ['o*', 'daybook-demo'] });
  expect(await modelNames(secret)).toEqual(['daybook-demo', 'ok', 'other']);
  await restrict(id, { models: ['*-demo', 'ok', 'daybook-demo-fail'] });
  expect(await modelNames(secret)).toEqual(['daybook-demo', 'ok']);
  await restrict(id, { models: [] });
  expect(await modelNames(secret)).toEqual([]);
});

describe('a change reaches a running server by itself', () => {
  /** Changes something behind the server's back, and waits until it knows. */
  const becomes = async (
    key: string,
    status: number,
    change: Parameters<typeof changeControl>[2],
  ): Promise<void> => {
    await changeControl(relay.store, relay.dataDir, change);
    await until(
      () => call(key),
      (reply) => reply.status === status,
      'the change',
    );
  };

  test('of a plan, for all of its accounts', async () => {
    const { secret } = await onPlan('shared', { models: ['ok'] });
    await relay.createAccount('sharer');
    await relay.control((control) => control.setPlan('sharer', 'shared', 'keep'));
    const { secret: other } = await relay.createKey({ account: 'sharer' });
    await accepted(other);
    await becomes(secret, 403, (control) => control.definePlan('shared', { models: ['s:*'] }, 'keep'));
    await refused(other, 'model_not_permitted');
    await accepted(other, { model: 's:tokens=1' });
  });

  test("of an account's own terms, which stand in place of its plan's", async () => {
    const { secret } = await onPlan('special', { models: ['ok'], routes: ['/v1/models'] });
    await refused(secret, 'route_not_permitted');
    await becomes(secret, 200, (control) =>
      control.overrideTerms('special', { routes: ['/v1/chat/completions'] }, 'keep'),
    );
    await refused(secret, 'model_not_permitted', { model: 'other' });
    await becomes(secret, 403, (control) => control.overrideTerms('special', {}, 'keep'));
  });

  test('of a key, and its new expiry', async () => {
    const { id, secret } = await relay.createKey();
    const change = { set: {}, drop: [], clear: false, windows: 'keep' } as const;
    await becomes(secret, 403, (control) =>
      control.restrictKey(id, { ...change, set: { models: ['other'] }, expiresAt: undefined }),
    );
    await becomes(secret, 200, (control) =>
      control.restrictKey(id, { ...change, drop: ['models'], expiresAt: undefined }),
    );
    await becomes(secret, 401, (control) =>
      control.restrictKey(id, { ...change, expiresAt: new Date(Date.now() + 1_500) }),
    );
  });
});

test('a key never may more than its account, whatever it was given', async () => {
  const { id, secret } = await onPlan('narrow', {
    models: ['ok'],
    routes: ['/v1/chat/completions'],
    origins: ['none'],
  });
  await restrict(id, {
    models: ['*'],
    routes: ['/v1/chat/completions', '/v1/models'],
    origins: ['none', PAGE],
    networks: ['0.0.0.0/0'],
  });
  await accepted(secret);
  await refused(secret, 'model_not_permitted', { model: 'other' });
  await refused(secret, 'origin_not_allowed', { headers: { origin: PAGE } });
  expect((await listModels(secret)).status).toBe(403);
});

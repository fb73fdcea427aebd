import { once } from 'node:events';
import { type IncomingMessage, request as httpRequest } from 'node:http';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI, { APIConnectionError, APIError } from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import type { EventOf } from '#db/events/events.ts';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { protocolOf } from '#server/protocols/protocol.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** The relayed routes beside chat completions: the same stages, each in the words of its clients. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

/** A model whose only upstream takes chat completions. */
const CHAT_ONLY = 's:obey=yes,tokens=2';

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [
      { baseUrl: upstream.baseUrl, name: 'all', models: ['ok', 's:*'], routes: RELAYED_ROUTES },
      { baseUrl: upstream.baseUrl, name: 'chat', models: [CHAT_ONLY], routes: ['/v1/chat/completions'] },
    ],
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const BODIES: Readonly<Record<RelayedRoute, object>> = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'hi' }] },
  '/v1/completions': { prompt: 'hi' },
  '/v1/embeddings': { input: 'hi' },
  '/v1/responses': { input: 'hi' },
  '/v1/messages': { messages: [{ role: 'user', content: 'hi' }], max_tokens: 100 },
  '/v1/moderations': { input: 'hi' },
  '/v1/rerank': { query: 'hi', documents: ['hi'] },
  '/v1/images/generations': { prompt: 'hi' },
  '/v1/images/edits': { prompt: 'hi' },
  '/v1/images/variations': {},
  '/v1/audio/transcriptions': {},
  '/v1/audio/translations': {},
  '/v1/audio/speech': { input: 'hi', voice: 'alloy' },
};
/** The routes whose requests are forms, or whose replies are audio, have tests of their own: test/media/. */
const OTHERS = RELAYED_ROUTES.filter(
  (route) =>
    route !== '/v1/chat/completions' && !route.startsWith('/v1/audio/') && !/edits|variations/.test(route),
);
const WITHOUT_OUTPUT: readonly RelayedRoute[] = ['/v1/embeddings', '/v1/moderations', '/v1/rerank'];
/** Routes whose usage nothing bounds. */
const NEVER_BOUNDED: readonly RelayedRoute[] = ['/v1/rerank', '/v1/images/generations'];
const STREAMED = ['/v1/completions', '/v1/responses', '/v1/messages'] as const;

type Sent = { status: number; headers: Headers; text: string };
async function post(
  route: string,
  body: object,
  headers: Record<string, string> = { authorization: `Bearer ${relay.key}` },
): Promise<Sent> {
  const reply = await fetch(`http://127.0.0.1:${relay.port}${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
  return { status: reply.status, headers: reply.headers, text: await reply.text() };
}
const call = (
  route: RelayedRoute,
  model: string,
  more: object = {},
  headers?: Record<string, string>,
): Promise<Sent> => post(route, { model, ...BODIES[route], ...more }, headers);

async function lastSettled(): Promise<EventOf<'request.settled'>> {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const last = log.findLast(({ event }) => event.type === 'request.settled')?.event;
  if (last?.type !== 'request.settled') throw new Error('nothing was settled');
  return last;
}
const sentBody = (): Record<string, unknown> =>
  JSON.parse(upstream.ledger.requestBody(upstream.ledger.attempts.length).toString()) as Record<
    string,
    unknown
  >;

/** An error as its clients read it: messages have their own shape, the others that of the convention. */
function errorOf(route: string, { headers, text }: Sent): { code: string; message: string } {
  const body = JSON.parse(text) as {
    type?: string;
    error: { type: string; code: string; message: string };
    request_id: string;
  };
  expect(headers.get('x-request-id')).toBe(body.request_id);
  expect(headers.get('request-id')).toBe(route.startsWith('/v1/messages') ? body.request_id : null);
  expect(body.type).toBe(route.startsWith('/v1/messages') ? 'error' : undefined);
  expect(body.error.type).toMatch(/^[a-z_]+$/);
  return body.error;
}

describe.each(OTHERS)('%s', (route) => {
  test("passes the upstream's bytes, and is recorded as what it is and settled as it reported", async () => {
    const reply = await call(route, 's:tokens=6,cached=1,written=2');
    const attempt = upstream.ledger.attempts.at(-1);
    expect(reply.status).toBe(200);
    expect(reply.text).toBe(upstream.ledger.replyBody(attempt?.attempt ?? 0).toString());
    expect(attempt?.path).toBe(route);
    expect(upstream.ledger.requestBody(attempt?.attempt ?? 0).toString()).toBe(
      JSON.stringify({ model: 's:tokens=6,cached=1,written=2', ...BODIES[route] }),
    );
    const output = WITHOUT_OUTPUT.includes(route) ? 0 : 6;
    expect(await lastSettled()).toMatchObject({
      end_reason: 'completed',
      usage_source: 'provider',
      input_tokens: attempt?.usageReported?.prompt,
      cache_read_tokens: 1,
      cache_write_tokens: 2,
      output_tokens: output,
    });
    const accepted = (await relay.readLog()).findLast(({ event }) => event.type === 'request.accepted');
    expect(accepted?.event).toMatchObject({ route });
  });

  test("reports every stage's refusal in the words of its clients", async () => {
    const { secret } = await relay.createKey({ name: `none-${route}` });
    await relay.control((control) =>
      control.restrictKey(secret.split('_')[1] ?? '', {
        set: { routes: ['/v1/models'] },
        drop: [],
        clear: true,
        expiresAt: undefined,
        windows: 'keep',
      }),
    );
    const cases: [Promise<Sent>, number, string][] = [
      [call(route, 'ok', {}, {}), 401, 'missing_api_key'],
      [call(route, 'ok', {}, { authorization: 'Bearer nonsense' }), 401, 'invalid_api_key'],
      [call(route, 'ok', {}, { authorization: `Bearer ${secret}` }), 403, 'route_not_permitted'],
      [post(route, { model: 4 }), 400, 'invalid_value'],
      [call(route, 'nobody-has-it'), 404, 'model_not_found'],
      [call(route, 's:status=400'), 400, 'upstream_rejected'],
      [call(route, 's:status=401'), 502, 'upstream_unauthorized'],
      [call(route, 's:status=429'), 503, 'upstream_rate_limited'],
      [call(route, 's:status=500'), 502, 'upstream_error'],
      [call(route, 's:end=cut@head'), 502, 'upstream_error'],
    ];
    // Calls of other protocols are translated into chats.
    if (protocolOf(route) === null) cases.push([call(route, CHAT_ONLY), 404, 'model_not_found']);
    for (const [sent, status, code] of cases) {
      const reply = await sent;
      expect([reply.status, errorOf(route, reply).code]).toEqual([status, code]);
    }
    const got = await fetch(`http://127.0.0.1:${relay.port}${route}`);
    expect([
      got.status,
      got.headers.get('allow'),
      errorOf(route, { status: got.status, headers: got.headers, text: await got.text() }).code,
    ]).toEqual([405, 'POST, OPTIONS', 'method_not_allowed']);
  });
});

describe.each(STREAMED)('a stream of %s', (route) => {
  test('passes byte for byte, but for usage that was not asked for', async () => {
    const reply = await call(route, 's:tokens=6,cached=1,split=random', { stream: true });
    const sent = upstream.ledger.replyBody(upstream.ledger.attempts.length).toString();
    if (route === '/v1/completions') {
      expect(sentBody()['stream_options']).toEqual({ include_usage: true });
      expect(reply.text).toBe(sent.replace(/data: [^\n]*"choices":\[\][^\n]*\n\n/, ''));
    } else expect(reply.text).toBe(sent);
    expect(reply.text).not.toBe('');
    expect(await lastSettled()).toMatchObject({
      end_reason: 'completed',
      usage_source: 'provider',
      output_tokens: 6,
      cache_read_tokens: 1,
    });
  });

  test.each(['end=cut@3', 'end=reset@3', 'end=stop@3'])(
    'that breaks off is reported in it, in the words of its clients: %s',
    async (end) => {
      const { text } = await call(route, `s:${end}`, { stream: true });
      const last = text.trimEnd().split('\n\n').at(-1) ?? '';
      const data = JSON.parse(last.slice(last.indexOf('data: ') + 'data: '.length)) as Record<
        string,
        unknown
      >;
      if (route === '/v1/completions')
        expect([last.startsWith('data: '), data['error']]).toEqual([
          true,
          expect.objectContaining({ code: 'upstream_disconnected' }),
        ]);
      if (route === '/v1/messages')
        expect([last.startsWith('event: error\n'), data]).toMatchObject([
          true,
          { type: 'error', error: { type: 'api_error', code: 'upstream_disconnected' } },
        ]);
      if (route === '/v1/responses')
        expect([last.startsWith('event: error\n'), data]).toMatchObject([
          true,
          {
            type: 'error',
            code: 'upstream_disconnected',
            sequence_number: (text.match(/^data:/gm)?.length ?? 0) - 1,
          },
        ]);
      expect(await lastSettled()).toMatchObject({
        end_reason: 'upstream_disconnected',
        usage_source: 'counted',
        output_tokens: 3,
      });
    },
  );

  test('in which the upstream reports an error is not settled as completed', async () => {
    const { text } = await call(route, 's:end=error@3', { stream: true });
    expect(text).toContain('"error"');
    expect(await lastSettled()).toMatchObject({ end_reason: 'upstream_error', output_tokens: 3 });
  });
});

describe('the clients throw where a stream breaks off', () => {
  test('of responses', async () => {
    const client = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key, maxRetries: 0 });
    const error = await Array.fromAsync(
      await client.responses.create({ model: 's:end=cut@3', input: 'hi', stream: true }),
    ).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(APIError);
    expect(error).not.toBeInstanceOf(APIConnectionError);
    expect(error).toMatchObject({ code: 'upstream_disconnected' });
  });

  test("of messages, and are told the request's id of any error", async () => {
    const client = new Anthropic({
      baseURL: `http://127.0.0.1:${relay.port}`,
      apiKey: relay.key,
      maxRetries: 0,
    });
    const asked = { max_tokens: 9, messages: [{ role: 'user' as const, content: 'hi' }] };
    await expect(client.messages.stream({ model: 's:end=cut@3', ...asked }).finalMessage()).rejects.toThrow(
      /before it was complete/,
    );
    const error = await client.messages
      .create({ model: 's:status=400', ...asked })
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Anthropic.BadRequestError);
    expect(error).toMatchObject({
      status: 400,
      requestID: expect.stringMatching(/^[0-9a-f-]{36}$/) as string,
    });
  });
});

test('an embedding is read by the client that asked for it', async () => {
  const client = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key, maxRetries: 0 });
  const { data, usage } = await client.embeddings.create({ model: 'ok', input: ['one', 'two'] });
  expect(data.map(({ embedding }) => embedding)).toEqual([
    [0.5, -0.25, 0.125],
    [0.5, -0.25, 0.125],
  ]);
  expect(usage.total_tokens).toBe(usage.prompt_tokens);
});

describe('the key of messages', () => {
  const ask = (headers: Record<string, string>): Promise<Sent> => call('/v1/messages', 'ok', {}, headers);

  test('comes as x-api-key, as a bearer, or as both where they are the same', async () => {
    const bearer = `Bearer ${relay.key}`;
    expect((await ask({ 'x-api-key': relay.key })).status).toBe(200);
    expect((await ask({ authorization: bearer })).status).toBe(200);
    expect((await ask({ 'x-api-key': relay.key, authorization: bearer })).status).toBe(200);
  });

  test.each<[string, () => Record<string, string>, string]>([
    [
      'two that differ',
      () => ({ 'x-api-key': relay.key, authorization: `Bearer ${relay.key}x` }),
      'invalid_api_key',
    ],
    [
      'a valid one beside nonsense',
      () => ({ 'x-api-key': 'nonsense', authorization: `Bearer ${relay.key}` }),
      'invalid_api_key',
    ],
    ['a bearer in the wrong place', () => ({ 'x-api-key': `Bearer ${relay.key}` }), 'invalid_api_key'],
    ['an empty one', () => ({ 'x-api-key': '' }), 'invalid_api_key'],
    ['none', () => ({}), 'missing_api_key'],
  ])('%s is a 401', async (_, headers, code) => {
    const reply = await ask(headers());
    expect([reply.status, errorOf('/v1/messages', reply).code]).toEqual([401, code]);
  });

  test('is asked for as a bearer by every other route', async () => {
    for (const route of OTHERS.filter((each) => each !== '/v1/messages'))
      expect((await call(route, 'ok', {}, { 'x-api-key': relay.key })).status).toBe(401);
  });
});

describe('what agents do besides', () => {
  test('the query of a path is not looked at', async () => {
    const reply = await post('/v1/messages?beta=true', { model: 'ok', ...BODIES['/v1/messages'] });
    expect([reply.status, upstream.ledger.attempts.at(-1)?.path]).toEqual([200, '/v1/messages']);
  });

  test('headers of their protocol go on, and nothing else of theirs', async () => {
    const own = {
      'x-api-key': relay.key,
      'anthropic-beta': 'context-management-2025-06-27,other',
      'anthropic-version': '2023-01-01',
      'anthropic-dangerous-direct-browser-access': 'true',
      'x-stainless-lang': 'js',
      cookie: 'a=b',
    };
    await call('/v1/messages', 'ok', {}, own);
    const headers = new Map(
      upstream.ledger.attempts.at(-1)?.headers.map(([name, value]) => [name.toLowerCase(), value]),
    );
    expect([headers.get('anthropic-beta'), headers.get('anthropic-version')]).toEqual([
      own['anthropic-beta'],
      '2023-01-01',
    ]);
    for (const name of [
      'x-api-key',
      'anthropic-dangerous-direct-browser-access',
      'x-stainless-lang',
      'cookie',
    ])
      expect(headers.has(name)).toBe(false);
    await call(
      '/v1/responses',
      'ok',
      {},
      { authorization: `Bearer ${relay.key}`, 'anthropic-beta': 'x', 'openai-beta': 'y' },
    );
    const others = upstream.ledger.attempts.at(-1)?.headers.map(([name]) => name.toLowerCase()) ?? [];
    expect(others.filter((name) => name.endsWith('-beta'))).toEqual([]);
  });

  test('HEAD of the root says that someone is there', async () => {
    const status = await new Promise((resolve, reject) =>
      httpRequest({ port: relay.port, method: 'HEAD', path: '/' }, (reply) =>
        resolve([reply.statusCode, reply.headers['x-request-id'] !== undefined]),
      )
        .on('error', reject)
        .end(),
    );
    expect(status).toEqual([200, true]);
  });

  test('another path below messages is a 404 in the words of its clients', async () => {
    const reply = await post('/v1/messages/drafts', { requests: [] }, { 'x-api-key': relay.key });
    expect([reply.status, errorOf('/v1/messages/drafts', reply)]).toEqual([
      404,
      expect.objectContaining({ type: 'not_found_error', code: 'route_not_found' }),
    ]);
  });
});

describe('under a hard quota', () => {
  const withQuota = async (name: string, limit: number): Promise<Record<string, string>> => {
    await relay.createAccount(name);
    await relay.control((control) =>
      control.definePlan(
        name,
        { quotas: [{ meter: 'tokens', window: 'day', limit, enforcement: 'hard' }] },
        'keep',
      ),
    );
    await relay.control((control) => control.setPlan(name, name, 'keep'));
    return { authorization: `Bearer ${(await relay.createKey({ account: name })).secret}` };
  };

  test("each route's reply is limited by the member that it knows", async () => {
    const key = await withQuota('limited', 1_000_000);
    const limitOf = async (route: RelayedRoute, more: object = {}): Promise<Record<string, unknown>> => {
      expect((await call(route, 's:obey=yes,tokens=3', more, key)).status).toBe(200);
      return Object.fromEntries(Object.entries(sentBody()).filter(([name]) => name.startsWith('max_')));
    };
    expect(await limitOf('/v1/completions')).toEqual({ max_tokens: expect.any(Number) as number });
    expect(await limitOf('/v1/responses')).toEqual({ max_output_tokens: expect.any(Number) as number });
    expect(await limitOf('/v1/responses', { max_output_tokens: 50 })).toEqual({ max_output_tokens: 50 });
    expect(await limitOf('/v1/responses', { max_output_tokens: 900_000_000 })).toEqual({
      max_output_tokens: expect.any(Number) as number,
    });
    expect(
      upstream.ledger
        .requestBody(upstream.ledger.attempts.length)
        .toString()
        .match(/max_output_tokens/g),
    ).toHaveLength(1);
    expect(await limitOf('/v1/messages')).toEqual({ max_tokens: 100 });
    expect(await limitOf('/v1/messages', { max_tokens: 900_000_000 })).toEqual({
      max_tokens: expect.any(Number) as number,
    });
    expect(sentBody()['max_tokens']).toBeLessThan(1_000_000);
    expect(await limitOf('/v1/embeddings')).toEqual({});
  });

  test.each(['/v1/responses', '/v1/messages'] as const)(
    'the reply to a translated call is limited, too: %s',
    async (route) => {
      const key = await withQuota(`translated${route.replaceAll('/', '-')}`, 1_000_000);
      const member = route === '/v1/messages' ? 'max_tokens' : 'max_output_tokens';
      expect((await call(route, CHAT_ONLY, { [member]: 900_000_000 }, key)).status).toBe(200);
      expect(sentBody()['max_tokens']).toBeLessThan(1_000_000);
      expect(sentBody()['max_tokens']).toBeGreaterThan(900_000);
    },
  );

  test('a spent quota is a 429 in the words of the route', async () => {
    const key = await withQuota('spent', 10);
    for (const route of OTHERS.filter((each) => !NEVER_BOUNDED.includes(each))) {
      const reply = await call(route, 'ok', {}, key);
      expect([reply.status, errorOf(route, reply).code, reply.headers.get('x-should-retry')]).toEqual([
        429,
        'insufficient_quota',
        'false',
      ]);
    }
  });

  test("a response can't go on from what no one has counted", async () => {
    const key = await withQuota('elsewhere', 1_000_000);
    const reply = await call('/v1/responses', 'ok', { previous_response_id: 'resp_1' }, key);
    expect([reply.status, errorOf('/v1/responses', reply)]).toEqual([
      400,
      expect.objectContaining({ code: 'invalid_value', param: 'previous_response_id' }),
    ]);
    expect((await call('/v1/responses', 'ok', { conversation: 'conv_1' })).status).toBe(200);
  });
});

const WITHOUT_WEBSOCKET = RELAYED_ROUTES.filter((route) => route !== '/v1/responses');

test.for(WITHOUT_WEBSOCKET)('a WebSocket to %s gets 426, so that its client uses HTTP', async (route) => {
  const socket = new WebSocket(`ws://127.0.0.1:${relay.port}${route}`, {
    headers: { authorization: `Bearer ${relay.key}` },
  });
  const [, reply] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage];
  expect([reply.statusCode, reply.headers.upgrade]).toEqual([426, 'HTTP/1.1']);
  reply.resume();
});

test.for(RELAYED_ROUTES)(
  'a front that removes the upgrade of a WebSocket to %s leads to 426',
  async (route) => {
    const headers = { authorization: `Bearer ${relay.key}`, 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' };
    const sent = httpRequest({ port: relay.port, path: route, headers }).end();
    const [reply] = (await once(sent, 'response')) as [IncomingMessage];
    expect([reply.statusCode, reply.headers.upgrade]).toEqual([426, 'HTTP/1.1']);
    reply.resume();
  },
);

import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';

/** Clients of responses and messages, whose only upstream takes chat completions. */

let upstream: ScriptedUpstream;
let relay: TestRelay;

beforeAll(async () => {
  upstream = await startUpstream();
  relay = await startRelay({
    upstreams: [{ baseUrl: upstream.baseUrl, models: ['s:*'], routes: ['/v1/chat/completions'] }],
  });
});

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

const ROUTES = ['/v1/responses', '/v1/messages'] as const;
type Route = (typeof ROUTES)[number];
const BODIES = {
  '/v1/responses': { input: 'hi' },
  '/v1/messages': { messages: [{ role: 'user', content: 'hi' }], max_tokens: 100 },
};
/** The last event of a whole stream. */
const ENDS: Record<Route, string> = {
  '/v1/responses': 'response.completed',
  '/v1/messages': 'message_stop',
};

type Sent = { status: number; headers: Headers; text: string };
async function call(route: Route, model: string, more: object = {}): Promise<Sent> {
  const reply = await fetch(`http://127.0.0.1:${relay.port}${route}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${relay.key}` },
    body: JSON.stringify({ model, ...BODIES[route], ...more }),
  });
  return { status: reply.status, headers: reply.headers, text: await reply.text() };
}

type Data = Record<string, unknown> & { type: string };
const eventsOf = ({ text }: Sent): Data[] =>
  text
    .split('\n\n')
    .filter((event) => event.includes('data: '))
    .map((event) => JSON.parse(event.slice(event.indexOf('data: ') + 6)) as Data);

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

describe.each(ROUTES)('%s over chat completions', (route) => {
  test('settles the usage that the upstream reported, and reports it to the client', async () => {
    const reply = await call(route, 's:tokens=6,cached=1,split=random', { stream: true });
    const end = eventsOf(reply).at(-1);
    expect(end?.type).toBe(ENDS[route]);
    const settled = await lastSettled();
    expect(settled).toMatchObject({
      route,
      end_reason: 'completed',
      usage_source: 'provider',
      output_tokens: 6,
      cache_read_tokens: 1,
    });
    expect(reply.text).toContain('"output_tokens":6');
    expect(sentBody()['stream_options']).toEqual({ include_usage: true });
  });

  test.each(['end=cut@3', 'end=reset@3', 'end=stop@3', 'end=cut@finish,usage=never,tokens=0'])(
    'reports a stream that breaks off in the words of its clients: %s',
    async (end) => {
      const reply = await call(route, `s:${end}`, { stream: true });
      const last = eventsOf(reply).at(-1);
      if (end.includes('finish')) {
        // The provider has completed the reply.
        expect(last?.type).toBe(ENDS[route]);
        return;
      }
      expect(last?.type).toBe('error');
      expect(reply.text).not.toContain(ENDS[route]);
      expect(reply.text.endsWith('\n\n')).toBe(true);
      expect(await lastSettled()).toMatchObject({
        end_reason: 'upstream_disconnected',
        usage_source: 'counted',
        output_tokens: 3,
      });
    },
  );

  test("ends with an error of the client's protocol where the upstream reports one", async () => {
    const reply = await call(route, 's:end=error@3', { stream: true });
    expect(eventsOf(reply).at(-1)?.type).toBe('error');
    expect(reply.text).not.toContain(ENDS[route]);
    expect(await lastSettled()).toMatchObject({ end_reason: 'upstream_error', output_tokens: 3 });
  });

  test('replies with errors in the words of its clients', async () => {
    for (const [script, status, code] of [
      ['s:status=400', 400, 'upstream_rejected'],
      ['s:status=429', 503, 'upstream_rate_limited'],
      ['s:end=error@body', 502, 'upstream_error'],
    ] as const) {
      const reply = await call(route, script);
      const body = JSON.parse(reply.text) as { type?: string; error: { code: string } };
      expect([reply.status, body.error.code]).toEqual([status, code]);
      expect(body.type).toBe(route === '/v1/messages' ? 'error' : undefined);
    }
  });

  test('names what the translation loses, and only that', async () => {
    const plain = await call(route, 's:');
    expect(plain.headers.get('x-daybook-untranslated')).toBeNull();
    const tools = [{ type: 'web_search_20260101', name: 'web_search' }];
    for (const stream of [false, true]) {
      const { headers } = await call(route, 's:', { tools, service_tier: 'auto', stream });
      expect(headers.get('x-daybook-untranslated')).toBe('service_tier, tools.web_search_20260101');
    }
  });

  test('refuses what refers to content that the upstream does not have', async () => {
    const name = route === '/v1/messages' ? 'container' : 'previous_response_id';
    const attempts = upstream.ledger.attempts.length;
    const reply = await call(route, 's:', { [name]: 'id_1' });
    expect([reply.status, reply.text]).toEqual([400, expect.stringContaining(name)]);
    expect(upstream.ledger.attempts.length).toBe(attempts);
  });
});

test('a free-text tool of responses is a function upstream, and free text again in the reply', async () => {
  const client = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key, maxRetries: 0 });
  const tools = [{ type: 'custom' as const, name: 'tool_0', description: 'Apply a patch.' }];
  const stream = client.responses.stream({ model: 's:tools=1,tokens=4', input: 'hi', tools });
  const { output } = await stream.finalResponse();
  expect(output).toMatchObject([{ type: 'custom_tool_call', name: 'tool_0' }]);
  expect(sentBody()['tools']).toMatchObject([
    { type: 'function', function: { name: 'tool_0', parameters: { required: ['input'] } } },
  ]);
});

test('a reply that stops at its limit says so in the words of messages', async () => {
  const client = new Anthropic({
    baseURL: `http://127.0.0.1:${relay.port}`,
    apiKey: relay.key,
    maxRetries: 0,
  });
  const message = await client.messages.create({
    model: 's:obey=yes,tokens=9',
    max_tokens: 4,
    messages: [{ role: 'user', content: 'hi' }],
  });
  expect(message).toMatchObject({ stop_reason: 'max_tokens', usage: { output_tokens: 4 } });
});

describe.each(['v1', 'v1beta'])('Gemini %s over chat completions', (version) => {
  const ask = async (
    method: string,
    body: object = { contents: [{ role: 'user', parts: [{ text: 'hi' }] }] },
    headers: Record<string, string> = { 'x-goog-api-key': relay.key },
  ): Promise<Sent> => {
    const reply = await fetch(`http://127.0.0.1:${relay.port}/${version}/models/${method}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(body),
    });
    return { status: reply.status, headers: reply.headers, text: await reply.text() };
  };
  const STREAM = 'streamGenerateContent?alt=sse';

  test('settles the usage that the upstream reported, and reports it to the client', async () => {
    const reply = await ask(`s:tokens=6,cached=1,split=random:${STREAM}`);
    const events = reply.text.trimEnd().split('\n\n');
    expect(JSON.parse((events.at(-1) ?? '').slice('data: '.length))).toMatchObject({
      candidates: [{ finishReason: 'STOP' }],
      usageMetadata: { candidatesTokenCount: 6, cachedContentTokenCount: 1 },
    });
    expect(await lastSettled()).toMatchObject({ end_reason: 'completed', output_tokens: 6 });
  });

  test('reports a stream that breaks off as an error of its own', async () => {
    const { text } = await ask(`s:end=cut@3:${STREAM}`);
    const last = text.trimEnd().split('\n\n').at(-1) ?? '';
    expect(JSON.parse(last.slice('data: '.length))).toMatchObject({
      error: {
        code: 502,
        status: 'INTERNAL',
        details: [{ reason: 'upstream_disconnected' }, {}, { retryDelay: '1s' }],
      },
    });
    expect(text).not.toContain('finishReason');
    expect(await lastSettled()).toMatchObject({ end_reason: 'upstream_disconnected', output_tokens: 3 });
  });

  test.each([
    ['a key in the address', `s::generateContent?key=1`, {}, 400, 'invalid_value'],
    ['a stream in another form', 's::streamGenerateContent', {}, 400, 'invalid_value'],
    ['no key', 's::generateContent', {}, 401, 'missing_api_key'],
    ['a wrong key', 's::generateContent', { 'x-goog-api-key': 'nonsense' }, 401, 'invalid_api_key'],
    ['an unknown model', 'none:generateContent', null, 404, 'model_not_found'],
    ['an error of the upstream', 's:status=429:generateContent', null, 503, 'upstream_rate_limited'],
  ] as const)('replies with an error in its own format: %s', async (_, path, headers, status, reason) => {
    const reply = await ask(path, undefined, headers ?? undefined);
    const { error } = JSON.parse(reply.text) as { error: { code: number; details: object[] } };
    expect([reply.status, error.code]).toEqual([status, status]);
    expect(error.details[0]).toMatchObject({ reason });
  });

  test('states when a spent quota resets, so that clients give up instead of retrying', async () => {
    const name = `spent-${version}`;
    await relay.createAccount(name);
    const quotas = [{ meter: 'requests', window: 'month', limit: 0, enforcement: 'hard' } as const];
    await relay.control((control) => control.overrideTerms(name, { quotas }, 'keep'));
    const { secret } = await relay.createKey({ account: name });
    const askedAtMs = Date.now();
    const reply = await ask('s::generateContent', undefined, { 'x-goog-api-key': secret });
    expect([reply.status, reply.headers.get('x-should-retry')]).toEqual([429, 'false']);
    const { error } = JSON.parse(reply.text) as { error: { status: string; details: object[] } };
    expect(error).toMatchObject({
      status: 'RESOURCE_EXHAUSTED',
      details: [{ reason: 'insufficient_quota' }, {}, {}],
    });
    const { retryDelay } = error.details[2] as { retryDelay: string };
    expect(retryDelay).toMatch(/^\d+s$/);
    const resetsAtMs = Date.parse(reply.headers.get('x-quota-reset') ?? '');
    const secondsFrom = (ms: number): number => Math.ceil((resetsAtMs - ms) / 1_000);
    expect(Number.parseInt(retryDelay, 10)).toBeGreaterThanOrEqual(secondsFrom(Date.now()));
    expect(Number.parseInt(retryDelay, 10)).toBeLessThanOrEqual(secondsFrom(askedAtMs));
  });

  test("limits the reply by the client's own limit, and names lost fields", async () => {
    const contents = [{ role: 'user', parts: [{ text: 'hi' }] }];
    const { headers } = await ask('s::generateContent', {
      contents,
      tools: [{ googleSearch: {} }],
      generationConfig: { maxOutputTokens: 7, topK: 2 },
    });
    expect(sentBody()['max_tokens']).toBe(7);
    expect(headers.get('x-daybook-untranslated')).toBe('generationConfig.topK, tools.googleSearch');
  });

  test('finds the call of each result where the client sends no ids', async () => {
    const called = (name: string): object => ({ functionCall: { name, args: {} } });
    const result = (name: string): object => ({ functionResponse: { name, response: { output: name } } });
    await ask('s::generateContent', {
      contents: [
        { role: 'user', parts: [{ text: 'hi' }] },
        { role: 'model', parts: [called('a'), called('b')] },
        { role: 'user', parts: [result('b'), result('a')] },
      ],
    });
    expect(sentBody()['messages']).toMatchObject([
      { role: 'user' },
      { tool_calls: [{ id: 'call_0' }, { id: 'call_1' }] },
      { role: 'tool', tool_call_id: 'call_1', content: 'b' },
      { role: 'tool', tool_call_id: 'call_0', content: 'a' },
    ]);
  });
});

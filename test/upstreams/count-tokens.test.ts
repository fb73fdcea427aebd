import Anthropic from '@anthropic-ai/sdk';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { EventOf, Placed } from '#db/events/events.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type PlainUpstream, startPlainUpstream } from '../support/plain-upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Counts of tokens for clients that ask before they call: by the provider, else estimated. */

let upstream: PlainUpstream;
let relay: TestRelay;
const SOURCE = 'x-daybook-count-source';
const SECRET = 'sk-upstream-credential-0123456789';
const messages = [{ role: 'user' as const, content: 'How high is the tide? '.repeat(20) }];
const contents = [{ role: 'user', parts: [{ text: 'How high is the tide? '.repeat(20) }] }];

beforeAll(async () => {
  upstream = await startPlainUpstream(() => ({ body: '{"input_tokens":1,"totalTokens":1}' }));
  relay = await startRelay();
  await declare(
    relay,
    {
      upstreams: {
        claude: {
          provider: 'anthropic',
          base_url: upstream.url,
          models: ['claude-*'],
          credentials: [{ label: 'own', secret: '${UPSTREAM_KEY}' }],
        },
        google: {
          dialect: 'gemini',
          base_url: `${upstream.url}/v1beta/openai`,
          models: ['gemini-*'],
          credentials: [{ label: 'own', secret: '${UPSTREAM_KEY}' }],
        },
        other: { base_url: `${upstream.url}/v1`, models: ['gpt-*'] },
      },
      models: { house: { targets: [{ upstream: 'claude', model: 'claude-opus' }] } },
    },
    { UPSTREAM_KEY: SECRET },
  );
  // Credentials are opened a moment after they were declared.
  for (const ask of [() => countMessages('claude-x'), () => countContents('gemini-x')])
    await until(ask, (reply) => reply.headers.get(SOURCE) === 'provider', 'the credential');
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.[Symbol.asyncDispose]();
});
beforeEach(() => {
  upstream.requests.length = 0;
  upstream.reply = ({ path }) => ({
    body: path.includes('countTokens')
      ? '{"totalTokens":31,"promptTokensDetails":[]}'
      : '{"input_tokens":42}',
  });
});

type Counted = EventOf<'tokens.counted'>;
async function countsOf(atLeast = 1): Promise<Counted[]> {
  const of = (events: readonly Placed[]): Counted[] =>
    events.flatMap(({ event }) => (event.type === 'tokens.counted' ? [event] : []));
  return of(await relay.waitFor((events) => of(events).length >= atLeast));
}
const counted = async (request: string | null): Promise<Counted | undefined> => {
  await relay.waitFor((events) =>
    events.some(({ event }) => event.type === 'tokens.counted' && event.request === request),
  );
  return (await countsOf()).find((event) => event.request === request);
};

const post = (path: string, body: object, headers: Record<string, string>): Promise<Response> =>
  fetch(`http://127.0.0.1:${relay.port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  });
const countMessages = (model: string, key = relay.key, more: object = {}): Promise<Response> =>
  post('/v1/messages/count_tokens', { model, messages, ...more }, { 'x-api-key': key });
const countContents = (model: string, body: object = { contents }): Promise<Response> =>
  post(`/v1beta/models/${model}:countTokens`, body, { 'x-goog-api-key': relay.key });

describe('messages/count_tokens', () => {
  test('is counted by an upstream with the protocol, and recorded without a charge', async () => {
    const client = new Anthropic({ baseURL: `http://127.0.0.1:${relay.port}`, apiKey: relay.key });
    const { data, response } = await client.messages
      .countTokens({ model: 'house', messages, system: 'Be brief.' })
      .withResponse();
    expect(data).toEqual({ input_tokens: 42 });
    expect(response.headers.get(SOURCE)).toBe('provider');
    const [sent] = upstream.requests;
    expect(sent?.path).toBe('/v1/messages/count_tokens');
    expect([sent?.headers['x-api-key'], sent?.headers['authorization']]).toEqual([SECRET, undefined]);
    expect(sent?.headers['anthropic-version']).toMatch(/^\d{4}-\d\d-\d\d$/);
    expect(JSON.parse(sent?.body.toString() ?? '')).toEqual({
      ...{ model: 'claude-opus', messages, system: 'Be brief.' },
    });
    const event = await counted(response.headers.get('x-request-id'));
    expect(event).toMatchObject({
      ...{ model: 'house', route: '/v1/messages', upstream: 'claude' },
      ...{ usage_source: 'provider', input_tokens: 42, body_bytes: expect.any(Number) as number },
    });
    const log = await relay.readLog();
    expect(log.filter(({ event: { type } }) => type.startsWith('request.'))).toEqual([]);
  });

  test('is estimated where the upstream has another protocol, and says so', async () => {
    const reply = await countMessages('gpt-x');
    expect(reply.headers.get(SOURCE)).toBe('estimate');
    const { input_tokens: tokens } = (await reply.json()) as { input_tokens: number };
    expect(tokens).toBeGreaterThan(50);
    expect(tokens).toBeLessThan(300);
    expect(upstream.requests).toEqual([]);
    const event = await counted(reply.headers.get('x-request-id'));
    expect(event).toMatchObject({ usage_source: 'estimated', input_tokens: tokens });
    expect(event?.upstream).toBe(undefined);
  });

  test.each([404, 429, 500])('is estimated where the upstream replies %i', async (status) => {
    upstream.reply = () => ({ status, body: '{"error":{"message":"no"}}' });
    const reply = await countMessages('claude-x');
    expect([reply.status, reply.headers.get(SOURCE)]).toEqual([200, 'estimate']);
  });

  test("is the upstream's 400 where it rejects the request, without its credential", async () => {
    upstream.reply = () => ({ status: 400, body: `{"error":{"message":"roles must alternate ${SECRET}"}}` });
    const reply = await countMessages('claude-x');
    const text = await reply.text();
    expect(text).toMatch(/roles must alternate/);
    expect(text).not.toContain(SECRET);
    expect([reply.status, JSON.parse(text)]).toMatchObject([
      400,
      { type: 'error', error: { code: 'upstream_rejected' } },
    ]);
  });

  test('needs a key that permits messages and the model', async () => {
    const { secret, id } = await relay.createKey({ name: 'narrow' });
    await relay.control((control) =>
      control.restrictKey(id, {
        ...{ set: { models: ['claude-y'] }, drop: [], clear: true, expiresAt: undefined, windows: 'keep' },
      }),
    );
    expect((await countMessages('claude-x', 'nonsense')).status).toBe(401);
    const reply = await countMessages('claude-x', secret);
    expect([reply.status, ((await reply.json()) as { error: { code: string } }).error.code]).toEqual([
      403,
      'model_not_permitted',
    ]);
    expect((await countMessages('nobody-has-it')).status).toBe(404);
    expect(upstream.requests).toEqual([]);
  });

  test('is limited as requests are, and apart from them', async () => {
    await relay.createAccount('counters');
    const { secret } = await relay.createKey({ account: 'counters' });
    await relay.control((control) => control.overrideTerms('counters', { requests_per_minute: 3 }, 'keep'));
    const statuses = [];
    for (let count = 0; count < 8; count++) statuses.push((await countMessages('gpt-x', secret)).status);
    // The minute may change once between them.
    expect(statuses.slice(0, 3)).toEqual([200, 200, 200]);
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(2);
    const limits = (await (
      await fetch(`${relay.baseUrl}/usage`, { headers: { authorization: `Bearer ${secret}` } })
    ).json()) as { limits: { used: number }[] };
    expect(limits.limits.map(({ used }) => used)).toEqual([0]);
  });
});

describe("Gemini's countTokens", () => {
  test("is counted by Gemini's own API, with its credential in the header of that API", async () => {
    const reply = await countContents('gemini-x');
    expect([reply.headers.get(SOURCE), await reply.json()]).toEqual([
      'provider',
      { totalTokens: 31, promptTokensDetails: [] },
    ]);
    expect(upstream.requests.map(({ path }) => path)).toEqual(['/v1beta/models/gemini-x:countTokens']);
    const { headers } = upstream.requests[0] ?? {};
    expect([headers?.['x-goog-api-key'], headers?.authorization]).toEqual([SECRET, undefined]);
    expect(await counted(reply.headers.get('x-request-id'))).toMatchObject({
      ...{ route: '/v1/chat/completions', upstream: 'google', input_tokens: 31 },
    });
  });

  test('counts a whole request, whose model is that of the path', async () => {
    const generateContentRequest = { model: 'models/another', contents, tools: [] };
    expect((await countContents('gemini-x', { generateContentRequest })).status).toBe(200);
    expect(JSON.parse(upstream.requests[0]?.body.toString() ?? '')).toEqual({
      generateContentRequest: { ...generateContentRequest, model: 'models/gemini-x' },
    });
  });

  test('is estimated elsewhere, with errors as Google words them', async () => {
    const reply = await countContents('gpt-x');
    expect(reply.headers.get(SOURCE)).toBe('estimate');
    expect(((await reply.json()) as { totalTokens: number }).totalTokens).toBeGreaterThan(50);
    const empty = await countContents('gpt-x', {});
    expect([empty.status, await empty.json()]).toMatchObject([
      400,
      { error: { code: 400, status: 'INVALID_ARGUMENT', message: 'The field "contents" is missing.' } },
    ]);
  });
});

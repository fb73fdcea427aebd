import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type PlainUpstream, startPlainUpstream } from '../support/plain-upstream.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Gemini's embedContent and batchEmbedContents, at Gemini's own API and at upstreams with /v1/embeddings. */

let google: PlainUpstream;
let upstream: ScriptedUpstream;
let relay: TestRelay;
const VALUES = [0.5, -0.25, 0.125];

beforeAll(async () => {
  google = await startPlainUpstream(() => ({ body: '{}' }));
  upstream = await startUpstream();
  relay = await startRelay({ env: { KEY_IN_QUERY: 'accept' } });
  const routes = ['/v1/embeddings' as const];
  await declare(relay, {
    upstreams: {
      google: { dialect: 'gemini', base_url: `${google.url}/v1beta/openai`, models: ['gemini-embedding'] },
      other: { base_url: upstream.baseUrl, models: ['ok', 's:*'], routes },
    },
    models: { vectors: { targets: [{ upstream: 'google', model: 'gemini-embedding' }] } },
  });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await google?.[Symbol.asyncDispose]();
  await upstream?.close();
});
beforeEach(() => {
  google.requests.length = 0;
});

const content = (text: string): object => ({ parts: [{ text }] });
const embed = (path: string, body: object, query = ''): Promise<Response> =>
  fetch(`http://127.0.0.1:${relay.port}/v1beta/models/${path}${query}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(query === '' ? { 'x-goog-api-key': relay.key } : {}),
    },
    body: JSON.stringify(body),
  });
async function lastSettled(): Promise<EventOf<'request.settled'>> {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const last = log.findLast(({ event }) => event.type === 'request.settled')?.event;
  if (last?.type !== 'request.settled') throw new Error('nothing was settled');
  return last;
}

test("a batch reaches Gemini's own API byte for byte, and its reply comes back so", async () => {
  const reply = `{"embeddings": [{"values": [0.5]}], "usageMetadata": {"promptTokenCount": 7}}`;
  google.reply = () => ({ body: reply });
  const body = { requests: [{ model: 'models/gemini-embedding', content: content('ebb'), taskType: 'X' }] };
  const got = await embed('gemini-embedding:batchEmbedContents', body);
  expect([got.status, await got.text()]).toEqual([200, reply]);
  expect(google.requests.map(({ path, body: sent }) => [path, sent.toString()])).toEqual([
    ['/v1beta/models/gemini-embedding:batchEmbedContents', JSON.stringify(body)],
  ]);
  expect(await lastSettled()).toMatchObject({
    ...{ route: '/v1/embeddings', usage_source: 'provider', input_tokens: 7, output_tokens: 0 },
  });
});

test('an alias is replaced by the name of its target, in the path and in each request', async () => {
  google.reply = () => ({ body: '{"embeddings":[{"values":[0.5]}]}' });
  const request = { model: 'models/vectors', content: content('ebb') };
  expect((await embed('vectors:batchEmbedContents', { requests: [request, request] })).status).toBe(200);
  const [sent] = google.requests;
  expect(sent?.path).toBe('/v1beta/models/gemini-embedding:batchEmbedContents');
  expect(JSON.parse(sent?.body.toString() ?? '')).toEqual({
    requests: [
      { ...request, model: 'models/gemini-embedding' },
      { ...request, model: 'models/gemini-embedding' },
    ],
  });
  // No usage was reported.
  expect(await lastSettled()).toMatchObject({
    model: 'vectors',
    usage_source: 'estimated',
    output_tokens: 0,
  });
});

test('elsewhere a batch is a call of embeddings, and what is lost is named', async () => {
  const requests = ['ebb', 'flow'].map((text) => ({
    ...{ model: 'models/ok', content: content(text), taskType: 'RETRIEVAL_QUERY', outputDimensionality: 3 },
  }));
  const reply = await embed('ok:batchEmbedContents', { requests });
  expect(await reply.json()).toEqual({ embeddings: [{ values: VALUES }, { values: VALUES }] });
  expect(reply.headers.get('x-daybook-untranslated')).toBe('taskType');
  const attempt = upstream.ledger.attempts.length;
  expect(JSON.parse(upstream.ledger.requestBody(attempt).toString())).toEqual({
    ...{ model: 'ok', input: ['ebb', 'flow'], dimensions: 3, encoding_format: 'float' },
  });
  expect(await lastSettled()).toMatchObject({ route: '/v1/embeddings', usage_source: 'provider' });
});

test('elsewhere a single content is a call of embeddings, too', async () => {
  const reply = await embed('ok:embedContent', { content: content('ebb') });
  expect(await reply.json()).toEqual({ embedding: { values: VALUES } });
});

test('errors are as Google words them', async () => {
  const cases: [Promise<Response>, number, string][] = [
    [embed('ok:embedContent', {}), 400, 'INVALID_ARGUMENT'],
    [embed('ok:embedContent', { content: { parts: [{ inlineData: {} }] } }), 400, 'INVALID_ARGUMENT'],
    [embed('s:status=429:embedContent', { content: content('ebb') }), 503, 'UNAVAILABLE'],
    [embed('nobody-has-it:embedContent', { content: content('ebb') }), 404, 'NOT_FOUND'],
  ];
  for (const [sent, status, name] of cases) {
    const reply = await sent;
    expect([reply.status, await reply.json()]).toMatchObject([status, { error: { status: name } }]);
  }
});

test('a key in the address is taken where the operator allows it', async () => {
  const body = { content: content('ebb') };
  expect((await embed('ok:embedContent', body, `?key=${relay.key}`)).status).toBe(200);
  expect((await embed('ok:embedContent', body, '?key=nonsense')).status).toBe(401);
  const list = await fetch(`http://127.0.0.1:${relay.port}/v1beta/models?key=${relay.key}`);
  const { models } = (await list.json()) as {
    models: { name: string; supportedGenerationMethods: string[] }[];
  };
  expect(models.find(({ name }) => name === 'models/ok')?.supportedGenerationMethods).toEqual([
    'embedContent',
    'batchEmbedContents',
  ]);
});

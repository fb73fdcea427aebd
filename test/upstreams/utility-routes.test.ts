import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { openRequests } from '../support/faults.ts';
import { startRelay, type TestRelay } from '../support/relay.ts';
import { type ScriptedUpstream, startUpstream } from '../support/upstream/upstream.ts';
import { declare } from '../support/upstream/upstreams-live.ts';

/** Moderations, reranking and image generation: routes that write no text, in units of their own. */

const ROUTES = ['/v1/moderations', '/v1/rerank', '/v1/images/generations'] as const;
const CENT = 10_000_000;

let upstream: ScriptedUpstream;
let relay: TestRelay;
let client: OpenAI;

beforeAll(async () => {
  upstream = await startUpstream();
  upstream.script('painter', 'tokens=40');
  upstream.script('old-painter', 'usage=never');
  relay = await startRelay();
  await declare(relay, {
    upstreams: { all: { base_url: upstream.baseUrl, models: ['*'], routes: [...ROUTES] } },
  });
  await relay.control(async (control) => {
    await control.setPrice('painter', { base: { input: 1_000_000_000, output: 2_000_000_000 } });
    await control.setPrice('old-painter', { base: { image: 4 * CENT } });
  });
  client = new OpenAI({ baseURL: relay.baseUrl, apiKey: relay.key, maxRetries: 0 });
});
afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.close();
});

async function lastSettled(): Promise<EventOf<'request.settled'>> {
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  const last = log.findLast(({ event }) => event.type === 'request.settled')?.event;
  if (last?.type !== 'request.settled') throw new Error('nothing was settled');
  return last;
}

const post = (path: string, body: object, key = relay.key): Promise<Response> =>
  fetch(`http://127.0.0.1:${relay.port}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

test('a moderation is read by the client that asked for it', async () => {
  const { results } = await client.moderations.create({ model: 'ok', input: ['one', 'two'] });
  expect(results.map(({ flagged }) => flagged)).toEqual([false, false]);
  expect(await lastSettled()).toMatchObject({ route: '/v1/moderations', output_tokens: 0 });
});

test('reranking is charged the tokens that the provider reports, which are its prompt', async () => {
  const reply = await post('/v1/rerank', { model: 'ok', query: 'tide', documents: ['ebb', 'flow'] });
  const { results } = (await reply.json()) as { results: { index: number }[] };
  expect(results.map(({ index }) => index)).toEqual([0, 1]);
  const reported = upstream.ledger.attempts.at(-1)?.usageReported;
  expect(await lastSettled()).toMatchObject({
    route: '/v1/rerank',
    usage_source: 'provider',
    input_tokens: reported?.prompt,
    output_tokens: 0,
  });
});

describe('image generation', () => {
  test('is charged the tokens that the provider reports, and counts its images', async () => {
    const { data } = await client.images.generate({ model: 'painter', prompt: 'a tide', n: 3 });
    expect(data?.map(({ b64_json: bytes }) => bytes)).toEqual(['aGVsbG8=', 'aGVsbG8=', 'aGVsbG8=']);
    const settled = await lastSettled();
    expect(settled).toMatchObject({
      route: '/v1/images/generations',
      usage_source: 'provider',
      output_tokens: 40,
      usage_details: { images: 3 },
    });
    expect(settled.cost_nanousd).toBe(settled.input_tokens * 1_000 + 40 * 2_000);
  });

  test('is charged by the image where the provider reports no tokens', async () => {
    await client.images.generate({ model: 'old-painter', prompt: 'a tide', n: 2 });
    expect(await lastSettled()).toMatchObject({
      usage_source: 'provider',
      input_tokens: 0,
      output_tokens: 0,
      usage_details: { images: 2 },
      cost_nanousd: 8 * CENT,
    });
  });

  test('reserves the price of all images that are asked for', async () => {
    await relay.createAccount('painters');
    const { secret } = await relay.createKey({ account: 'painters' });
    const quota = { meter: 'cost_nanousd', window: 'month', limit: 11 * CENT, enforcement: 'soft' } as const;
    await relay.control((control) => control.overrideTerms('painters', { quotas: [quota] }, 'keep'));
    const ask = (n: number) =>
      post('/v1/images/generations', { model: 'old-painter', prompt: 'a tide', n }, secret);
    expect((await ask(3)).status).toBe(429);
    expect((await ask(2)).status).toBe(200);
  });

  test('is not streamed', async () => {
    const before = upstream.ledger.attempts.length;
    const reply = await post('/v1/images/generations', { model: 'painter', prompt: 'a tide', stream: true });
    expect([reply.status, await reply.json()]).toMatchObject([
      400,
      { error: { code: 'invalid_value', param: 'stream' } },
    ]);
    expect(upstream.ledger.attempts.length).toBe(before);
  });
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import type { EventOf } from '#db/events/events.ts';
import { openRequests } from '../support/faults.ts';
import { COST_FIXTURES, type CostFixture, costFixture } from '../support/providers/cost-fixtures.ts';
import { declare } from '../support/upstream/upstreams-live.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { startRelay, type TestRelay, until } from '../support/relay.ts';
import { type RawUpstream, startRawUpstream } from '../support/upstream/raw-upstream.ts';

/** The replies of providers through a whole server: what their calls used is in the log. */

type Case = { model: string; form: 'json' | 'sse'; fixture: CostFixture };
/** A package needs an upstream of its own kind. */
const CASES: readonly Case[] = COST_FIXTURES.filter(({ provider }) => !provider.startsWith('@')).flatMap(
  (fixture) => fixture.forms.map((form) => ({ model: `${fixture.name}.${form}`, form, fixture })),
);
const BODIES: Record<string, object> = {
  '/v1/chat/completions': { messages: [{ role: 'user', content: 'When does the tide turn?' }] },
  '/v1/completions': { prompt: 'When does the tide turn?' },
  '/v1/embeddings': { input: 'When does the tide turn?' },
  '/v1/responses': { input: 'When does the tide turn?' },
  '/v1/messages': { max_tokens: 5_000, messages: [{ role: 'user', content: 'When does the tide turn?' }] },
};

let upstream: RawUpstream;
let relay: TestRelay;
let settled: Map<string, EventOf<'request.settled'>>;

beforeAll(async () => {
  upstream = await startRawUpstream((body, socket) => {
    const { model } = JSON.parse(body) as { model: string };
    const { form, fixture } = CASES.find((each) => each.model === model) as Case;
    const bytes = costFixture(fixture.name, form);
    const type = form === 'sse' ? 'text/event-stream' : 'application/json';
    const headers = Object.entries(fixture.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
    const head = `content-type: ${type}\r\ncontent-length: ${bytes.length}\r\n${headers.join('')}`;
    socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n`);
    socket.write(bytes);
  });
  relay = await startRelay();
  const providers = ['openai', 'anthropic'] as const;
  const named = (provider: string): string[] =>
    CASES.flatMap(({ fixture, model }) => (fixture.provider === provider ? [model] : []));
  await declare(
    relay,
    {
      upstreams: Object.fromEntries(
        providers.map((provider) => [
          provider,
          {
            provider,
            base_url: provider === 'openai' ? upstream.baseUrl : new URL(upstream.baseUrl).origin,
            credentials: [{ label: 'main', secret: '${SECRET}' }],
            models: named(provider),
            ...(provider === 'openai' ? { routes: Object.keys(BODIES).slice(0, -1) as RelayedRoute[] } : {}),
          },
        ]),
      ),
    },
    { SECRET: 'of-the-relay' },
  );
  // The server opens a credential a moment after it has applied its event.
  for (const provider of providers)
    await until(
      () => send(CASES.find(({ fixture }) => fixture.provider === provider) as Case),
      (status) => status === 200,
      'a credential',
    );
  for (const each of CASES) expect([each.model, await send(each)]).toEqual([each.model, 200]);
  const log = await relay.waitFor((events) => openRequests(events).length === 0);
  settled = new Map(
    log.flatMap(({ event }) => (event.type === 'request.settled' ? [[event.model, event]] : [])),
  );
});

async function send({ model, form, fixture: { route } }: Case): Promise<number> {
  const reply = await fetch(`http://127.0.0.1:${relay.port}${route}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${relay.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model, ...(form === 'sse' ? { stream: true } : {}), ...BODIES[route] }),
  });
  await reply.arrayBuffer();
  return reply.status;
}

afterAll(async () => {
  await relay?.[Symbol.asyncDispose]();
  await upstream?.[Symbol.asyncDispose]();
});

test.each(CASES)('$model is settled by class, with its facts and credential', ({ model, fixture }) => {
  const { usage, facts } = fixture;
  const event = settled.get(model);
  expect(event).toMatchObject({ usage_source: 'provider', end_reason: 'completed', status: 200 });
  expect(event?.credential).toMatch(/^[0-9A-Za-z]{8}$/);
  expect({
    input: event?.input_tokens,
    cached: event?.cache_read_tokens,
    cacheWrite: event?.cache_write_tokens,
    output: event?.output_tokens,
    reasoning: event?.reasoning_tokens,
    details: event?.usage_details,
  }).toEqual(usage);
  expect({
    answeredModel: event?.answered_model,
    finishReason: event?.finish_reason,
    serviceTier: event?.service_tier,
    providerRequest: event?.provider_request,
    statedCost: event?.stated_cost_nanousd,
  }).toEqual(facts);
});

test("a call of Anthropic's with a cache read, cache writes and a reply has each of them in the log", () => {
  expect(settled.get('anthropic-cache.sse')).toMatchObject({
    input_tokens: 86_003,
    cache_read_tokens: 80_000,
    cache_write_tokens: 6_000,
    usage_details: { cache_write_1h_tokens: 2_000 },
    output_tokens: 400,
    answered_model: 'claude-opus-4-5-20251101',
    finish_reason: 'end_turn',
    service_tier: 'standard',
    provider_request: 'req_011CSHoEeqs5C35K2UUqR7Fy',
    upstream: 'anthropic',
  });
});

import { readdirSync } from 'node:fs';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Usage } from '#db/money.ts';
import { anthropic } from '#server/providers/anthropic/provider.ts';
import { openBridge } from '#server/providers/bridge/bridge.ts';
import { createOpenai } from '#server/providers/openai/openai.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import type { JsonReply, ProviderCall } from '#server/providers/provider.ts';
import { allFacts, headFacts, type ReplyFacts } from '#server/wire/reply-facts.ts';
import { SSE_EVENT_BYTES_MAX } from '#server/wire/bounds.ts';
import { NOTHING_TO_REDACT } from '#server/wire/redactor.ts';
import type { SseReader } from '#server/wire/sse.ts';
import { callOf, runThrough } from '../../support/providers/anthropic-calls.ts';
import { bridged } from '../../support/providers/bridged.ts';
import {
  COST_FIXTURES,
  COST_FOLDER,
  type CostFixture,
  costFixture,
} from '../../support/providers/cost-fixtures.ts';
import { type ScriptedProvider, startProvider } from '../../support/upstream/scripted-provider.ts';
import { chunksOf } from '../../support/wire/arbitrary-sse.ts';

/** What calls cost, read from replies as their providers send them. */

type Read = Pick<SseReader | JsonReply, 'usage' | 'facts' | 'isImplausible'>;
type Headers = Record<string, string | string[] | undefined>;
type Understood = { usage: Usage | null; facts: Partial<ReplyFacts> };

/** @param headers of the reply. */
function understood({ usage, facts, isImplausible }: Read, headers: Headers = {}): Understood {
  expect(isImplausible).toBe(false);
  const all = Object.entries(allFacts(facts, headFacts(headers), NOTHING_TO_REDACT));
  return { usage, facts: Object.fromEntries(all.filter(([, value]) => value !== null)) };
}

const DIRECT = COST_FIXTURES.filter(({ provider }) => !provider.startsWith('@'));
const PACKAGED = COST_FIXTURES.filter(({ provider }) => provider.startsWith('@'));
const named = (fixtures: readonly CostFixture[], form: 'json' | 'sse'): [string, CostFixture][] =>
  fixtures.filter(({ forms }) => forms.includes(form)).map((fixture) => [fixture.name, fixture]);
/** The routes that a reply of this kind is read for: those of Anthropic are also translated. */
const callsOf = ({ provider, route }: CostFixture): ProviderCall[] =>
  (provider === 'anthropic' ? ([route, '/v1/chat/completions'] as const) : [route]).map((each) =>
    callOf({ stream: true, stream_options: { include_usage: true } }, { route: each }),
  );
const providerOf = ({ provider }: CostFixture): ReturnType<typeof createOpenai> =>
  provider === 'anthropic' ? anthropic : createOpenai('other');

test('at least 14 providers are there, each reply with its expectation and a documented format', () => {
  expect(new Set(COST_FIXTURES.map(({ name }) => name.split('-')[0])).size).toBeGreaterThanOrEqual(14);
  const files = COST_FIXTURES.flatMap(({ name, forms }) =>
    [...forms, 'expected.json', 'cost.yaml'].map((form) => `${name}.${form}`),
  );
  expect(readdirSync(COST_FOLDER).toSorted()).toEqual(files.toSorted());
  for (const { documented } of COST_FIXTURES)
    for (const url of documented) expect(url).toMatch(/^https:\/\/[\w.-]+\/\S+$/);
});

test.each(COST_FIXTURES)('the classes of $name are parts of their wholes, and disjoint', ({ usage }) => {
  const { input, cached, cacheWrite = 0, output, reasoning, details = {} } = usage;
  const { audio_input_tokens = 0, image_input_tokens = 0, cache_write_1h_tokens = 0 } = details;
  expect(cached + cacheWrite + audio_input_tokens + image_input_tokens).toBeLessThanOrEqual(input);
  expect(cache_write_1h_tokens).toBeLessThanOrEqual(cacheWrite);
  const { audio_output_tokens = 0, image_output_tokens = 0 } = details;
  expect(reasoning + audio_output_tokens + image_output_tokens).toBeLessThanOrEqual(output);
});

describe.each(named(DIRECT, 'json'))('%s.json', (_, fixture) => {
  test.each(callsOf(fixture))('is understood on $route', (call) => {
    const reply = providerOf(fixture).json(costFixture(fixture.name, 'json'), call);
    expect(understood(reply as JsonReply, fixture.headers)).toEqual({
      usage: fixture.usage,
      facts: fixture.facts,
    });
  });
});

describe.each(named(DIRECT, 'sse'))('%s.sse', (_, fixture) => {
  const bytes = costFixture(fixture.name, 'sse');

  test.each(callsOf(fixture))('is understood on $route, whole and in any chunks', (call) => {
    const read = (chunks: readonly Buffer[]): Understood => {
      const reader = providerOf(fixture).sse(call);
      runThrough(reader, chunks);
      expect(reader).toMatchObject({ complete: true, failed: false });
      return understood(reader, fixture.headers);
    };
    const expected = { usage: fixture.usage, facts: fixture.facts };
    expect(read([bytes])).toEqual(expected);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 400 }), { minLength: 1, maxLength: 20 }), (sizes) => {
        expect(read(chunksOf(bytes, sizes))).toEqual(expected);
      }),
      { numRuns: 10 },
    );
  });

  test.each(callsOf(fixture))('is known by its id and model on $route when it is cut', (call) => {
    const reader = providerOf(fixture).sse(call);
    // Behind the first text of the reply.
    runThrough(reader, [bytes.subarray(0, bytes.indexOf('\n\n', bytes.indexOf('The') + 1) + 2)]);
    const { answeredModel, providerRequest } = understood(reader, fixture.headers).facts;
    expect({ answeredModel, providerRequest }).toEqual({
      answeredModel: fixture.facts.answeredModel,
      providerRequest: fixture.facts.providerRequest,
    });
  });
});

test.each(['response.completed', 'response.incomplete'])(
  'a response ends with %s behind an image larger than an event that is held, in any chunks',
  (ending) => {
    const { usage, facts } = COST_FIXTURES.find(({ name }) => name === 'openai-image') as CostFixture;
    const text = costFixture('openai-image', 'sse')
      .toString()
      .replaceAll(/iVBORw[\w+/=]+/g, 'iVBORw'.repeat(SSE_EVENT_BYTES_MAX / 4))
      .replaceAll('response.completed', ending);
    for (const size of [text.length, 65_536, 1_009]) {
      const reader = createOpenai('other').sse(callOf({ stream: true }, { route: '/v1/responses' }));
      const bytes = Buffer.from(text);
      runThrough(reader, chunksOf(bytes, [size]));
      expect(reader).toMatchObject({ complete: true, failed: false });
      const finishReason = ending.slice('response.'.length);
      expect(understood(reader)).toEqual({ usage, facts: { ...facts, finishReason } });
    }
  },
);

describe('through a package', () => {
  let provider: ScriptedProvider;
  beforeAll(async () => {
    provider = await startProvider();
  });
  afterAll(() => provider[Symbol.asyncDispose]());

  const send = async (fixture: CostFixture, form: 'json' | 'sse'): ReturnType<typeof bridged> => {
    const terms = { package: fixture.provider, base_url: provider.url };
    const bridge = openBridge({ terms, secret: 'not-a-credential-of-anybody', fetch });
    const type = form === 'sse' ? 'text/event-stream' : 'application/json';
    const headers = { 'content-type': type, ...fixture.headers };
    provider.answers.splice(0, Infinity, { text: costFixture(fixture.name, form).toString(), headers });
    return bridged(bridge, { model: fixture.model, ...(form === 'sse' ? { stream: true } : {}) });
  };

  test.each(named(PACKAGED, 'json'))('%s.json is understood', async (_, fixture) => {
    const { text, headers } = await send(fixture, 'json');
    const reply = parseJsonReply(Buffer.from(text));
    expect(understood(reply as JsonReply, headers)).toEqual({ usage: fixture.usage, facts: fixture.facts });
  });

  test.each(named(PACKAGED, 'sse'))('%s.sse is understood', async (_, fixture) => {
    const { tap, headers } = await send(fixture, 'sse');
    expect(understood(tap, headers)).toEqual({ usage: fixture.usage, facts: fixture.facts });
  });
});

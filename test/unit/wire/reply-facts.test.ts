import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { NativeSse } from '#server/providers/anthropic/native-sse.ts';
import { parseJsonReply } from '#server/providers/openai/json-reply.ts';
import { ResponsesSse } from '#server/providers/openai/responses-sse.ts';
import { responses } from '#server/providers/openai/responses.ts';
import { ChatSse } from '#server/providers/openai/sse.ts';
import { statedCost } from '#server/providers/openai/usage-details.ts';
import { STATED_COST_MAX_NANOUSD } from '#server/wire/bounds.ts';
import { Redactor } from '#server/wire/redactor.ts';
import {
  allFacts,
  headFacts,
  nanousdOf,
  nanousdOfNumber,
  NO_FACTS,
  type ReplyFacts,
} from '#server/wire/reply-facts.ts';
import { runThrough } from '../../support/providers/anthropic-calls.ts';

const SECRET = '7f3a9c51-be02-4d0e-90d1-aa00c91e6bf6';
const redactor = new Redactor([SECRET]);

describe('an amount in dollars', () => {
  test.each([
    ['0.00014875', 148_750],
    ['0.95', 950_000_000],
    ['1e-9', 1],
    ['4.1e-06', 4_100],
    ['4.9e-10', 0],
    ['5e-10', 1],
    ['0.0388131255', 38_813_126],
    ['12', 12_000_000_000],
    ['1.5E3', 1_500_000_000_000],
    ['1000000', STATED_COST_MAX_NANOUSD],
    ['1000000.000000001', null],
    ['1e99', null],
    ['1e308', null],
    ['-1', null],
    ['Infinity', null],
    ['0x10', null],
    ['', null],
    ['1'.repeat(200), null],
  ])('%s is %s nano-dollars', (text, expected) => {
    expect(nanousdOf(text)).toBe(expected);
  });

  test('is exact, rounded half up, however it is written', () => {
    const parts = fc.record({
      digits: fc.bigInt({ min: 0n, max: 10n ** 15n - 1n }),
      scale: fc.integer({ min: 0, max: 20 }),
    });
    fc.assert(
      fc.property(parts, ({ digits, scale }) => {
        // In units of 10^-scale dollars, as a fraction of nano-dollars.
        const [over, under] = [digits * 10n ** 9n, 10n ** BigInt(scale)];
        const rounded = (2n * over + under) / (2n * under);
        const expected = rounded <= BigInt(STATED_COST_MAX_NANOUSD) ? Number(rounded) : null;
        const padded = String(digits).padStart(scale + 1, '0');
        const point = padded.length - scale;
        const decimal = scale === 0 ? padded : `${padded.slice(0, point)}.${padded.slice(point)}`;
        expect(nanousdOf(decimal)).toBe(expected);
        expect(nanousdOf(`${digits}e-${scale}`)).toBe(expected);
        expect(nanousdOfNumber(JSON.parse(decimal))).toBe(expected);
      }),
    );
  });
});

describe('the cost that a provider states', () => {
  test.each([
    [
      'OpenRouter',
      { cost: 0.95, is_byok: false, cost_details: { upstream_inference_cost: 19 } },
      950_000_000,
    ],
    [
      "OpenRouter, the operator's key",
      { cost: 0.95, is_byok: true, cost_details: { upstream_inference_cost: 19 } },
      19_950_000_000,
    ],
    ['xAI', { cost_in_usd_ticks: 37_756_000 }, 3_775_600],
    ['xAI, half a nano-dollar', { cost_in_usd_ticks: 5 }, 1],
    ['Perplexity', { cost: { request_cost: 0.006, total_cost: 0.018558 } }, 18_558_000],
    ['DeepInfra', { estimated_cost: 1.095e-5 }, 10_950],
    ['nobody', { prompt_tokens: 3 }, null],
    ['a negative cost', { cost: -1 }, null],
    ['a text', { cost: 'much', cost_in_usd_ticks: '5' }, null],
    ['null', { cost: null, cost_in_usd_ticks: null }, null],
  ])('%s', (_, usage, expected) => {
    expect(statedCost(usage)).toBe(expected);
  });
});

describe('the id of a request', () => {
  const facts = { ...NO_FACTS, providerRequest: 'chatcmpl-1' };
  const id = (headers: Record<string, string>, from: ReplyFacts = facts): string | null =>
    allFacts(from, headFacts(headers), redactor).providerRequest;

  test('is that of a header, else of the reply, else of the edge', () => {
    const edge = { 'cf-ray': 'ray-1' };
    expect([
      id({ 'request-id': 'req_2', 'x-request-id': 'req_1', ...edge }),
      id({ 'request-id': 'req_2', ...edge }),
      id(edge),
      id(edge, { ...NO_FACTS }),
      id({}, { ...NO_FACTS }),
    ]).toEqual(['req_1', 'req_2', 'chatcmpl-1', 'ray-1', null]);
  });

  test('is never one that a bridge made up', () => {
    expect(id({ 'x-daybook-generated-id': 'chatcmpl-1', 'cf-ray': 'ray-1' })).toBe('ray-1');
    expect(id({ 'x-daybook-generated-id': 'chatcmpl-2' })).toBe('chatcmpl-1');
  });
});

test('a text that contains a credential of the upstream is dropped', () => {
  const facts: ReplyFacts = {
    answeredModel: `model-${SECRET}`,
    finishReason: SECRET,
    serviceTier: 'default',
    providerRequest: 'chatcmpl-1',
    statedCost: null,
  };
  expect(allFacts(facts, headFacts({ 'x-request-id': SECRET }), redactor)).toEqual({
    answeredModel: null,
    finishReason: null,
    serviceTier: 'default',
    providerRequest: 'chatcmpl-1',
    statedCost: null,
  });
});

describe('whatever a reply states of itself', () => {
  const anyText = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('', 'x'.repeat(129), 'x'.repeat(257), 'ü', 'a\nb', '"', '\\', 'é'.repeat(40), '\u0000'),
  );
  const anyValue = fc.oneof(anyText, fc.jsonValue());
  const object = fc.record({
    id: anyValue,
    model: anyValue,
    tier: anyValue,
    finish: anyValue,
    cost: anyValue,
  });
  const sse = (...values: object[]): Buffer =>
    Buffer.from(values.map((value) => `data: ${JSON.stringify(value)}\n\n`).join(''));

  test('the log can hold each fact, and no reply fails by them', () => {
    fc.assert(
      fc.property(object, ({ id, model, tier, finish, cost }) => {
        const usage = { prompt_tokens: 3, completion_tokens: 2, cost, service_tier: tier };
        const head = { id, model, service_tier: tier };
        const choices = [
          { index: 0, message: { content: 'x' }, delta: { content: 'x' }, finish_reason: finish },
        ];
        const counts = { input_tokens: 3, output_tokens: 2, service_tier: tier };
        const response = { ...head, status: finish, incomplete_details: { reason: finish }, usage: counts };
        const message = { id, model, content: [], stop_reason: finish, usage: counts };
        const chat = new ChatSse(false);
        runThrough(chat, [sse({ ...head, choices }, { ...head, choices: [], usage })]);
        const answer = new ResponsesSse();
        runThrough(answer, [
          sse({ type: 'response.created', response: head }, { type: 'response.completed', response }),
        ]);
        const native = new NativeSse();
        runThrough(native, [
          sse({ type: 'message_start', message }, { type: 'message_delta', delta: message, usage: counts }),
        ]);
        const replies = [
          chat,
          answer,
          native,
          parseJsonReply(Buffer.from(JSON.stringify({ ...head, choices, usage }))),
          responses.json(Buffer.from(JSON.stringify({ ...response, output: [] })), {} as never),
        ];
        for (const reply of replies) {
          expect(reply?.usage).toMatchObject({ input: 3, output: 2 });
          const { statedCost: stated, ...texts } = allFacts(
            reply?.facts ?? NO_FACTS,
            headFacts({}),
            redactor,
          );
          for (const text of Object.values(texts)) expect(text ?? 'x').toMatch(/^[\x20-\x7e]{1,256}$/);
          for (const name of ['finishReason', 'serviceTier', 'providerRequest'] as const)
            expect((texts[name] ?? '').length).toBeLessThanOrEqual(128);
          expect(stated ?? 0).toSatisfy((amount) => Number.isSafeInteger(amount) && (amount as number) >= 0);
        }
      }),
      { numRuns: 300 },
    );
  });
});

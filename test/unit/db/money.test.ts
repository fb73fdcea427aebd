import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  costBound,
  costOf,
  formatDollars,
  outputTokensFor,
  parseDollars,
  PRICE_MAX,
  type Prices,
  tokensFor,
  type Usage,
} from '#db/money.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';

const tokens = fc.oneof(
  fc.nat(TOKENS_MAX),
  fc.nat(100),
  fc.constantFrom(TOKENS_MAX, 999_999, 1_000_000, 1_000_001),
);
const price = fc.oneof(
  fc.nat(PRICE_MAX),
  fc.nat(10_000_000),
  fc.constantFrom(0, 1, PRICE_MAX, 333_333, 500_000),
);
const prices: fc.Arbitrary<Prices> = fc.record({
  input: price,
  cached_input: price,
  output: price,
  reasoning: price,
});
const usage: fc.Arbitrary<Usage> = fc
  .record({
    input: tokens,
    output: tokens,
    cached: fc.double({ min: 0, max: 1, noNaN: true }),
    reasoning: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  .map(({ input, output, cached, reasoning }) => ({
    input,
    output,
    cached: Math.floor(input * cached),
    reasoning: Math.floor(output * reasoning),
  }));

/** The definition, in exact arithmetic: the sum of the four products, rounded half up, once. */
function exactCost(used: Usage, at: Prices): bigint {
  const sum =
    BigInt(used.input - used.cached) * BigInt(at.input) +
    BigInt(used.cached) * BigInt(at.cached_input) +
    BigInt(used.output - used.reasoning) * BigInt(at.output) +
    BigInt(used.reasoning) * BigInt(at.reasoning);
  return (sum + 500_000n) / 1_000_000n;
}

const runs = { numRuns: 2_000 };

describe('the cost of a request', () => {
  test('equals its definition, rounded once per request, and is a safe integer', () => {
    fc.assert(
      fc.property(usage, prices, (used, at) => {
        const cost = costOf(used, at);
        expect(Number.isSafeInteger(cost)).toBe(true);
        expect(BigInt(cost)).toBe(exactCost(used, at));
      }),
      runs,
    );
  });

  test('is exact for maximum counts and prices', () => {
    const most = { input: TOKENS_MAX, cached: 0, output: TOKENS_MAX, reasoning: TOKENS_MAX };
    const dearest = { input: PRICE_MAX, cached_input: PRICE_MAX, output: PRICE_MAX, reasoning: PRICE_MAX };
    expect(BigInt(costOf(most, dearest))).toBe(exactCost(most, dearest));
  });

  test.each<[string, (used: Usage, more: number) => Usage]>([
    ['fresh input', (used, more) => ({ ...used, input: used.input + more })],
    ['cached input', (used, more) => ({ ...used, input: used.input + more, cached: used.cached + more })],
    ['visible output', (used, more) => ({ ...used, output: used.output + more })],
    [
      'reasoning',
      (used, more) => ({ ...used, output: used.output + more, reasoning: used.reasoning + more }),
    ],
  ])('never falls with more %s', (_, add) => {
    fc.assert(
      fc.property(usage, prices, fc.nat(1_000_000), (used, at, more) => {
        expect(costOf(add(used, more), at)).toBeGreaterThanOrEqual(costOf(used, at));
      }),
      runs,
    );
  });

  test('matches published examples to the nano-dollar', () => {
    // An invoice of xAI's for grok-4.20: its cost_in_usd_ticks of 232,856,000 are 0.0232856 dollars.
    const used = { input: 10_120, cached: 128, output: 1_499 + 2_809, reasoning: 2_809 };
    const at = {
      input: 1_250_000_000,
      cached_input: 200_000_000,
      output: 2_500_000_000,
      reasoning: 2_500_000_000,
    };
    expect(costOf(used, at)).toBe(23_285_600);
  });
});

describe('the bound of a cost', () => {
  test('is at least the cost, whichever part is cached or reasoning, and monotonic', () => {
    fc.assert(
      fc.property(usage, prices, fc.nat(1_000), fc.nat(1_000), (used, at, moreInput, moreOutput) => {
        const bound = costBound(used.input + moreInput, used.output + moreOutput, at);
        expect(Number.isSafeInteger(bound)).toBe(true);
        expect(bound).toBeGreaterThanOrEqual(costOf(used, at));
      }),
      runs,
    );
  });

  test('is reached by the most expensive split', () => {
    fc.assert(
      fc.property(tokens, tokens, prices, (input, output, at) => {
        const costs = [0, input].flatMap((cached) =>
          [0, output].map((reasoning) => costOf({ input, cached, output, reasoning }, at)),
        );
        expect(costBound(input, output, at)).toBe(Math.max(...costs));
      }),
      runs,
    );
  });
});

describe('the tokens that an amount pays for', () => {
  const amount = fc.oneof(fc.nat(10_000_000), fc.maxSafeInteger().map(Math.abs), fc.constantFrom(0, 1));
  const exact = (count: number, at: number): bigint => (BigInt(count) * BigInt(at) + 500_000n) / 1_000_000n;

  test('fit into it, and one more does not', () => {
    fc.assert(
      fc.property(amount, fc.integer({ min: 1, max: PRICE_MAX }), (cost, at) => {
        const count = tokensFor(cost, at);
        expect(Number.isSafeInteger(count)).toBe(true);
        expect(exact(count, at)).toBeLessThanOrEqual(BigInt(cost));
        if (count < Number.MAX_SAFE_INTEGER) expect(exact(count + 1, at)).toBeGreaterThan(BigInt(cost));
      }),
      runs,
    );
  });

  test('are unlimited if they are free', () => expect(tokensFor(0, 0)).toBe(Number.MAX_SAFE_INTEGER));

  test('after a prompt, the whole request fits, and with one token more it does not', () => {
    fc.assert(
      fc.property(fc.oneof(fc.nat(1_000_000_000), fc.nat(10 ** 15)), tokens, prices, (cost, input, at) => {
        const count = outputTokensFor(cost, input, at);
        const reply = Math.min(count, TOKENS_MAX);
        if (costBound(input, 0, at) > cost) expect(count).toBe(0);
        else {
          expect(costBound(input, reply, at)).toBeLessThanOrEqual(cost);
          if (count < TOKENS_MAX) expect(costBound(input, count + 1, at)).toBeGreaterThan(cost);
        }
      }),
      runs,
    );
  });
});

describe('dollars', () => {
  test('are parsed and formatted exactly', () => {
    fc.assert(
      fc.property(fc.nat(PRICE_MAX), (at) => {
        expect(parseDollars(formatDollars(at))).toBe(at);
      }),
      runs,
    );
  });

  test.each<[string, number]>([
    ['2.50', 2_500_000_000],
    ['0', 0],
    ['10', 10_000_000_000],
    ['0.075', 75_000_000],
    ['0.000000001', 1],
    ['1000', PRICE_MAX],
    ['0.1', 100_000_000],
    ['4.35', 4_350_000_000],
  ])('%s are %d nano-dollars', (text, at) => expect(parseDollars(text)).toBe(at));

  test.each([
    '',
    '-1',
    '1e3',
    '.5',
    '1.',
    '2,50',
    '$2',
    '0.0000000001',
    '1000.01',
    '99999',
    ' 1',
    '1 ',
    'NaN',
    '٣',
  ])('%j is rejected rather than guessed at', (text) => expect(parseDollars(text)).toBeNull());

  test.each<[number, string]>([
    [2_500_000_000, '2.50'],
    [75_000_000, '0.075'],
    [1, '0.000000001'],
    [0, '0.00'],
    [15_000_000_000, '15.00'],
  ])('%d nano-dollars are written %s', (at, text) => expect(formatDollars(at)).toBe(text));
});

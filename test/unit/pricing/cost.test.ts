import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { UsageDetails } from '#db/events/usage-details.ts';
import { PRICE_MAX, type Usage } from '#db/money.ts';
import { costOf, roundCost, tokensOf } from '#db/pricing/cost.ts';
import { MARKUP_MAX, MARKUP_MIN, priceOfPart, type Rate, TOKEN_CLASSES } from '#db/pricing/parts.ts';
import { scheduleOf } from '#db/pricing/schedule.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';
import { anyRate } from '../../support/log/arbitrary-price.ts';
import { runs } from '../../fuzz/property-runs.ts';

const count = fc.oneof(
  fc.nat(TOKENS_MAX),
  fc.nat(100),
  fc.constantFrom(0, TOKENS_MAX, 999_999, 1_000_000, 1_000_001),
);
const DETAILS = [
  'cache_write_1h_tokens',
  'audio_input_tokens',
  'audio_output_tokens',
  'image_input_tokens',
  'image_output_tokens',
  'web_searches',
  'images',
  'media_ms',
  'characters',
  'tool_calls',
] as const satisfies readonly (keyof UsageDetails)[];
/** Parts may overlap, and exceed the whole. */
const anyUsage: fc.Arbitrary<Usage> = fc.record(
  {
    input: count,
    cached: count,
    cacheWrite: count,
    output: count,
    reasoning: count,
    details: fc.record(Object.fromEntries(DETAILS.map((name) => [name, fc.oneof(fc.nat(50), count)])), {
      requiredKeys: [],
      noNullPrototype: true,
    }),
  },
  { requiredKeys: ['input', 'cached', 'output', 'reasoning'], noNullPrototype: true },
);
const anyMarkup = fc.oneof(
  fc.integer({ min: MARKUP_MIN, max: MARKUP_MAX }),
  fc.constantFrom(0, MARKUP_MIN, MARKUP_MAX, 2_000, 1),
);

/** A rational number in the least fraction that prices need: 1/18,000,000 of a nano-dollar. */
const UNIT = 18_000_000n;
const MOST = BigInt(Number.MAX_SAFE_INTEGER);

/**
 * The definition: the sum of the products as a rational number, at least the minimum, rounded half up once.
 */
function reference(usage: Usage, rate: Rate, markup: number): { cost: bigint; unpriced: string[] } {
  const unpriced: string[] = [];
  const counts = [usage.input, usage.output, ...Object.values(usage.details ?? {})];
  if (counts.every((each) => each === 0)) return { cost: 0n, unpriced };
  let sum = BigInt(rate.per_request ?? 0) * UNIT;
  const add = (part: (typeof TOKEN_CLASSES)[number] | 'characters', units: number, per: bigint): void => {
    const price = priceOfPart(rate, part);
    if (units === 0) return;
    if (price === null) unpriced.push(part);
    else sum += (BigInt(units) * BigInt(price) * UNIT) / per;
  };
  const tokens = tokensOf(usage);
  for (const part of TOKEN_CLASSES) add(part, tokens[part], 1_000_000n);
  const details = usage.details ?? {};
  add('characters', details.characters ?? 0, 1_000_000n);
  for (const [part, units, per] of [
    ['media_hour', details.media_ms, 3_600_000n],
    ['image', details.images, 1n],
    ['web_search', details.web_searches, 1n],
    ['tool_call', details.tool_calls, 1n],
  ] as const) {
    if (!units) continue;
    const price = rate[part];
    if (price === undefined) unpriced.push(part);
    else sum += (BigInt(units) * BigInt(price) * UNIT) / per;
  }
  const least = BigInt(rate.minimum ?? 0) * UNIT;
  if (sum < least) sum = least;
  const scaled = (sum > MOST * UNIT ? MOST * UNIT : sum) * BigInt(10_000 + markup);
  const cost = (2n * scaled + UNIT * 10_000n) / (2n * UNIT * 10_000n);
  return { cost: cost > MOST ? MOST : cost, unpriced };
}

const rounded = (usage: Usage, rate: Rate, markup = 0): number =>
  roundCost(costOf(usage, scheduleOf({ base: rate }).base), markup);

describe('the cost of a request', () => {
  test('equals the rational sum of its products, rounded once, with every class and unit', () => {
    fc.assert(
      fc.property(anyUsage, anyRate, anyMarkup, (usage, rate, markup) => {
        const { cost, unpriced } = reference(usage, rate, markup);
        const exact = costOf(usage, scheduleOf({ base: rate }).base);
        expect(BigInt(roundCost(exact, markup))).toBe(cost);
        expect(exact.unpriced ?? []).toEqual(unpriced);
      }),
      runs(800),
    );
  });

  test('counts each token in exactly one class', () => {
    fc.assert(
      fc.property(anyUsage, (usage) => {
        const tokens = tokensOf(usage);
        const { output, reasoning, audio_output, image_output, ...input } = tokens;
        expect(Object.values(tokens).every((each) => Number.isSafeInteger(each) && each >= 0)).toBe(true);
        expect(output + reasoning + audio_output + image_output).toBe(usage.output);
        expect(Object.values(input).reduce((sum, each) => sum + each, 0)).toBe(usage.input);
      }),
      runs(800),
    );
  });

  test('is additive: the exact cost of two usages is the sum of their exact costs', () => {
    const half = fc.record({ input: count, output: count, cached: count, reasoning: count }).map((usage) => ({
      input: usage.input,
      cached: usage.cached % (usage.input + 1),
      output: usage.output,
      reasoning: usage.reasoning % (usage.output + 1),
    }));
    const exactly = (usage: Usage, rate: Rate): bigint => {
      const { whole, fraction } = costOf(usage, scheduleOf({ base: rate }).base);
      return BigInt(whole) * UNIT + BigInt(fraction);
    };
    const withoutFees = anyRate.map((rate) => ({ ...rate, per_request: 0, minimum: 0 }));
    fc.assert(
      fc.property(half, half, withoutFees, (one, other, rate) => {
        const both = {
          input: one.input + other.input,
          cached: one.cached + other.cached,
          output: one.output + other.output,
          reasoning: one.reasoning + other.reasoning,
        };
        fc.pre(both.input <= TOKENS_MAX && both.output <= TOKENS_MAX);
        expect(exactly(both, rate)).toBe(exactly(one, rate) + exactly(other, rate));
      }),
      runs(800),
    );
  });

  const MORE: [string, (usage: Usage, more: number) => Usage][] = [
    ['input', (usage, more) => ({ ...usage, input: usage.input + more })],
    ['cache reads', (usage, more) => ({ ...usage, input: usage.input + more, cached: usage.cached + more })],
    [
      'cache writes',
      (usage, more) => ({ ...usage, input: usage.input + more, cacheWrite: (usage.cacheWrite ?? 0) + more }),
    ],
    ['output', (usage, more) => ({ ...usage, output: usage.output + more })],
    [
      'reasoning',
      (usage, more) => ({ ...usage, output: usage.output + more, reasoning: usage.reasoning + more }),
    ],
    ...DETAILS.filter((name) => !name.endsWith('_tokens')).map(
      (name): [string, (usage: Usage, more: number) => Usage] => [
        name,
        (usage, more) => ({
          ...usage,
          details: { ...usage.details, [name]: (usage.details?.[name] ?? 0) + more },
        }),
      ],
    ),
    ...(['audio', 'image'] as const).map((kind): [string, (usage: Usage, more: number) => Usage] => [
      `${kind} tokens`,
      (usage, more) => ({
        ...usage,
        input: usage.input + more,
        output: usage.output + more,
        details: {
          ...usage.details,
          [`${kind}_input_tokens`]: (usage.details?.[`${kind}_input_tokens`] ?? 0) + more,
          [`${kind}_output_tokens`]: (usage.details?.[`${kind}_output_tokens`] ?? 0) + more,
        },
      }),
    ]),
  ];
  /** Parts within the whole, as providers report them. */
  const consistent = anyUsage.map((usage) => {
    const cached = usage.cached % (usage.input + 1);
    const cacheWrite = (usage.cacheWrite ?? 0) % (usage.input - cached + 1);
    return { ...usage, cached, cacheWrite, reasoning: usage.reasoning % (usage.output + 1), details: {} };
  });
  test.each(MORE)('never falls with more %s', (_, add) => {
    fc.assert(
      fc.property(consistent, anyRate, anyMarkup, fc.nat(1_000_000), (usage, rate, markup, more) => {
        expect(rounded(add(usage, more), rate, markup)).toBeGreaterThanOrEqual(rounded(usage, rate, markup));
      }),
      runs(100),
    );
  });

  test('is exact for maximum counts and prices', () => {
    const most = { input: TOKENS_MAX, cached: 0, output: TOKENS_MAX, reasoning: TOKENS_MAX };
    const rate = { input: PRICE_MAX, output: PRICE_MAX };
    expect(BigInt(rounded(most, rate))).toBe(reference(most, rate, 0).cost);
  });

  test('saturates where units are beyond all reason', () => {
    const usage = { input: 0, cached: 0, output: 0, reasoning: 0, details: { images: 1e15 } };
    expect(rounded(usage, { image: PRICE_MAX })).toBe(Number.MAX_SAFE_INTEGER);
    expect(rounded(usage, { image: PRICE_MAX }, 1)).toBe(Number.MAX_SAFE_INTEGER);
  });

  test('of prompts with cache writes counts those of five minutes and of an hour apart', () => {
    const rate = {
      input: 5_000_000_000,
      cache_read: 500_000_000,
      cache_write_5m: 6_250_000_000,
      cache_write_1h: 10_000_000_000,
      output: 25_000_000_000,
    };
    const usage = { input: 86_003, cached: 80_000, cacheWrite: 6_000, output: 400, reasoning: 0 };
    // 3 × 5,000 + 80,000 × 500 + 6,000 × 6,250 + 400 × 25,000 nano-dollars
    expect(rounded(usage, rate)).toBe(87_515_000);
    // 3 × 5,000 + 80,000 × 500 + 6,000 × 10,000 + 400 × 25,000
    expect(rounded({ ...usage, details: { cache_write_1h_tokens: 6_000 } }, rate)).toBe(110_015_000);
  });

  test('names the parts with usage that have no price, and charges the others', () => {
    const usage = {
      input: 10,
      cached: 0,
      output: 5,
      reasoning: 0,
      details: { web_searches: 2, images: 0, tool_calls: 1 },
    };
    const { unpriced, whole } = costOf(usage, scheduleOf({ base: { input: 1_000_000, web_search: 7 } }).base);
    expect([unpriced, whole]).toEqual([['output', 'tool_call'], 24]);
  });

  test('of a call that used nothing is 0, without a fee', () => {
    const usage = { input: 0, cached: 0, output: 0, reasoning: 0, details: { images: 0 } };
    expect(rounded(usage, { input: 1, per_request: 5, minimum: 9 })).toBe(0);
  });

  test('has the fee of a request, and is at least its minimum', () => {
    const usage = { input: 1_000, cached: 0, output: 0, reasoning: 0 };
    expect(rounded(usage, { input: 1_000_000, per_request: 5_000_000 })).toBe(5_001_000);
    expect(rounded(usage, { input: 1_000_000, minimum: 5_000 })).toBe(5_000);
    expect(rounded(usage, { input: 1_000_000, minimum: 500 })).toBe(1_000);
    // The mark-up is on the minimum, too.
    expect(rounded(usage, { input: 1_000_000, minimum: 5_000 }, 2_000)).toBe(6_000);
  });

  test('of an hour of audio is exact for a price that no millisecond divides', () => {
    const usage = { input: 0, cached: 0, output: 0, reasoning: 0, details: { media_ms: 3_600_000 } };
    expect(rounded(usage, { media_hour: 111_000_001 })).toBe(111_000_001);
    const second = { ...usage, details: { media_ms: 1_000 } };
    // 111,000,001 ÷ 3,600 = 30,833.33
    expect(rounded(second, { media_hour: 111_000_001 })).toBe(30_833);
  });
});

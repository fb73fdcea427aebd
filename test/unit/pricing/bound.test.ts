import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Usage } from '#db/money.ts';
import { costBound, highestCost, likelyCost, outputTokensFor } from '#db/pricing/bound.ts';
import { costOf, roundCost } from '#db/pricing/cost.ts';
import { MARKUP_MAX, MARKUP_MIN, type PriceTerms, type UnitCounts } from '#db/pricing/parts.ts';
import { rateAt, scheduleOf } from '#db/pricing/schedule.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';
import { anyRate, anyRule, SERVICE_TIERS } from '../../support/log/arbitrary-price.ts';
import { runs } from '../../fuzz/property-runs.ts';

const MINUTE = Math.floor(Date.UTC(2026, 5, 1) / 60_000);
const tokens = fc.oneof(fc.nat(2_000_000), fc.nat(100), fc.nat(TOKENS_MAX));
const markup = fc.oneof(fc.constant(0), fc.integer({ min: MARKUP_MIN, max: MARKUP_MAX }));
const anyTerms: fc.Arbitrary<PriceTerms> = fc.record({
  base: anyRate,
  rules: fc.array(anyRule, { maxLength: 5 }),
});
const share = fc.double({ min: 0, max: 1, noNaN: true });
const anyCall = fc
  .record({
    input: tokens,
    output: tokens,
    units: fc.record({
      web_searches: fc.nat(99),
      images: fc.nat(9),
      tool_calls: fc.nat(9),
      media_ms: fc.nat(9_000_000),
      characters: fc.nat(9_000_000),
    }),
    shares: fc.tuple(share, share, share, share, share, share, share, share),
    minute: fc.integer({ min: MINUTE - 300_000, max: MINUTE + 300_000 }),
    wait: fc.nat(5),
    serviceTier: fc.option(fc.constantFrom(...SERVICE_TIERS), { nil: undefined }),
    upstream: fc.constantFrom('one', 'two', undefined),
  })
  .map(({ input, output, shares, units, ...call }) => {
    const part = (of: number, index: number): number => Math.floor(of * (shares[index] ?? 0));
    const cached = part(input, 0);
    const cacheWrite = part(input - cached, 1);
    return {
      ...call,
      usage: {
        input,
        cached,
        cacheWrite,
        output,
        reasoning: part(output, 2),
        details: {
          ...units,
          cache_write_1h_tokens: part(cacheWrite, 3),
          audio_input_tokens: part(input, 4),
          image_input_tokens: part(input, 5),
          audio_output_tokens: part(output, 6),
          image_output_tokens: part(output, 7),
        },
      },
    };
  });
const unitsOf = ({ details }: Usage): UnitCounts => ({
  characters: details?.characters ?? 0,
  media_hour: details?.media_ms ?? 0,
  image: details?.images ?? 0,
  web_search: details?.web_searches ?? 0,
  tool_call: details?.tool_calls ?? 0,
});

describe('the bound of a cost', () => {
  test('is at least the cost under any condition, and grows with the tokens', () => {
    fc.assert(
      fc.property(
        anyTerms,
        anyCall,
        markup,
        fc.nat(1_000),
        fc.nat(1_000),
        (terms, call, basis, more, longer) => {
          const schedule = scheduleOf(terms);
          const { usage, minute, wait, serviceTier, upstream } = call;
          const rate = rateAt(schedule, {
            minute: minute + wait,
            inputTokens: usage.input,
            serviceTier,
            upstream,
          });
          const cost = roundCost(costOf(usage, rate), basis);
          const bound = costBound(
            highestCost(schedule, basis, usage.input, minute, unitsOf(usage)),
            usage.input,
            usage.output,
          );
          expect(bound).toBeGreaterThanOrEqual(cost);
          const input = usage.input + more;
          expect(
            costBound(
              highestCost(schedule, basis, input, minute, unitsOf(usage)),
              input,
              usage.output + longer,
            ),
          ).toBeGreaterThanOrEqual(bound);
        },
      ),
      runs(800),
    );
  });

  test('of an ordinary request is at most the highest', () => {
    fc.assert(
      fc.property(anyTerms, tokens, tokens, markup, (terms, input, output, basis) => {
        const schedule = scheduleOf(terms);
        const likely = costBound(likelyCost(schedule, basis, input, MINUTE), input, output);
        expect(likely).toBeLessThanOrEqual(
          costBound(highestCost(schedule, basis, input, MINUTE), input, output),
        );
      }),
      runs(800),
    );
  });

  test('leaves out rules that can not apply: another time, and a longer prompt', () => {
    const schedule = scheduleOf({
      base: { input: 1_000_000, output: 1_000_000 },
      rules: [
        { when: { input_tokens_above: 200_000 }, rate: { input: 9_000_000 } },
        { when: { valid_to: '2026-01-01T00:00:00Z' }, rate: { input: 50_000_000 } },
        { when: { valid_from: '2030-01-01T00:00:00Z' }, rate: { input: 50_000_000 } },
      ],
    });
    expect(costBound(highestCost(schedule, 0, 200_000, MINUTE), 200_000, 0)).toBe(200_000);
    expect(costBound(highestCost(schedule, 0, 200_001, MINUTE), 200_001, 0)).toBe(1_800_009);
  });

  test('leaves out the base rate where a rule always applies', () => {
    const schedule = scheduleOf({
      base: { input: 10_000_000 },
      rules: [{ when: { valid_from: '2025-06-10T00:00:00Z' }, rate: { input: 2_000_000 } }],
    });
    expect(costBound(highestCost(schedule, 0, 1_000, MINUTE), 1_000, 0)).toBe(2_000);
  });
});

describe('the reply that an amount pays for', () => {
  test('fits with its prompt, and one token more does not', () => {
    const amount = fc.oneof(fc.nat(1_000_000_000), fc.nat(10 ** 15));
    fc.assert(
      fc.property(amount, tokens, anyTerms, markup, (cost, input, terms, basis) => {
        const bound = highestCost(scheduleOf(terms), basis, input, MINUTE);
        const count = outputTokensFor(bound, cost, input);
        if (costBound(bound, input, 0) > cost) {
          expect(count).toBe(0);
          return;
        }
        expect(costBound(bound, input, Math.min(count, TOKENS_MAX))).toBeLessThanOrEqual(cost);
        if (count < TOKENS_MAX) expect(costBound(bound, input, count + 1)).toBeGreaterThan(cost);
      }),
      runs(800),
    );
  });

  test('is unlimited where tokens are free', () => {
    const bound = highestCost(scheduleOf({ base: { input: 0, output: 0 } }), 0, 10, MINUTE);
    expect(outputTokensFor(bound, 0, 10)).toBe(Number.MAX_SAFE_INTEGER);
    expect(outputTokensFor({ ...bound, markup: MARKUP_MIN }, 0, 10)).toBe(Number.MAX_SAFE_INTEGER);
  });
});

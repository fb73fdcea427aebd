import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { PlanTerms } from '#db/events/events.ts';
import { ROUTES } from '#db/limits/limits.ts';
import { sameTerms } from '#server/decide/terms.ts';
import { termsChanges } from '../../../web/ui/terms/changes.ts';

const amount = fc.nat(5_000_000);
const quota = fc.record({
  meter: fc.constantFrom('requests' as const, 'tokens' as const, 'cost_nanousd' as const),
  window: fc.constantFrom('hour' as const, 'day' as const),
  limit: amount,
  enforcement: fc.constantFrom('soft' as const, 'hard' as const),
});
const terms: fc.Arbitrary<PlanTerms> = fc.record(
  {
    models: fc.uniqueArray(fc.constantFrom('gpt-4o*', 'llama*', 'o3'), { maxLength: 3 }),
    routes: fc.uniqueArray(fc.constantFrom(...ROUTES), { maxLength: 3 }),
    requests_per_minute: amount,
    concurrent_requests: fc.nat(10_000),
    quotas: fc.uniqueArray(quota, {
      selector: ({ meter, window }) => `${meter} ${window}`,
      minLength: 1,
      maxLength: 4,
    }),
  },
  { requiredKeys: [] },
);

describe('changes between two sets of limits', () => {
  test('lists every change that the server would make, and no other', () => {
    fc.assert(
      fc.property(terms, fc.oneof(terms, fc.constant(null)), (before, other) => {
        const after = other ?? structuredClone(before);
        // The order of quotas means nothing.
        const inOrder = (each: PlanTerms): PlanTerms =>
          each.quotas
            ? {
                ...each,
                quotas: each.quotas.toSorted((one, two) =>
                  `${one.meter} ${one.window}` < `${two.meter} ${two.window}` ? -1 : 1,
                ),
              }
            : each;
        expect(termsChanges(before, after).length === 0).toBe(sameTerms(inOrder(before), inOrder(after)));
        expect(termsChanges(before, after, 'plan default').length === 0).toBe(
          sameTerms(inOrder(before), inOrder(after)),
        );
      }),
    );
  });

  test('is reversed when undone', () => {
    const turned = { stricter: 'looser', looser: 'stricter' } as const;
    fc.assert(
      fc.property(terms, terms, (one, other) => {
        const there = termsChanges(one, other).map(
          ({ what, effect }) => [what, effect && turned[effect]] as const,
        );
        const back = termsChanges(other, one).map(({ what, effect }) => [what, effect] as const);
        expect(new Map(back)).toEqual(new Map(there));
      }),
    );
  });

  test.each<[string, PlanTerms, PlanTerms, ReturnType<typeof termsChanges>[number]]>([
    [
      'a first limit is stricter',
      {},
      { requests_per_minute: 60 },
      { what: 'Requests per minute', from: 'no limit', to: '60', effect: 'stricter' },
    ],
    [
      'a model more is looser',
      { models: ['o3'] },
      { models: ['o3', 'gpt-4o*'] },
      { what: 'Models', from: 'o3', to: 'o3, gpt-4o*', effect: 'looser' },
    ],
    [
      'other models are neither',
      { models: ['o3'] },
      { models: ['gpt-4o*'] },
      { what: 'Models', from: 'o3', to: 'gpt-4o*', effect: null },
    ],
    [
      'no models at all are stricter',
      {},
      { models: [] },
      { what: 'Models', from: 'all', to: 'none', effect: 'stricter' },
    ],
    [
      'an amount is shown to the last nano-dollar',
      {
        quotas: [{ meter: 'cost_nanousd', window: 'month', limit: 25_000_000_000, enforcement: 'soft' }],
      },
      {
        quotas: [{ meter: 'cost_nanousd', window: 'month', limit: 25_000_000_001, enforcement: 'soft' }],
      },
      { what: 'Monthly cost', from: '$25.00', to: '$25.000000001', effect: 'looser' },
    ],
    [
      'a mark-up, exactly',
      { markup: 2_050 },
      { markup: -500 },
      { what: 'Mark-up', from: '20.5%', to: '-5%', effect: null },
    ],
    [
      'models without a price',
      {},
      { unpriced_models: 'free' },
      { what: 'Models without a price', from: 'default', to: 'free', effect: null },
    ],
  ])('%s', (_name, before, after, change) => expect(termsChanges(before, after)).toEqual([change]));
});

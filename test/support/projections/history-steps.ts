import * as fc from 'fast-check';
import { END_REASONS, type EndReason, USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import type { PlanTerms } from '#db/events/events.ts';
import { RELAYED_ROUTES } from '#db/limits/limits.ts';
import { BUCKET_BOUNDS_MS } from '#db/projections/buckets.ts';

/** The steps of made-up histories, for `HistoryWriter`. */

/** Some windows are over when their calls go on, and some when their terms begin. */
const MINUTES_AGO = [0, 0, 0, 1, 61, 1_500, 45_000];

const count = fc.oneof(fc.nat(9), fc.nat(5_000));
const amount = fc.oneof(fc.nat(9), fc.nat(1_000_000));
/** Amounts to add, or to take away. */
const delta = fc.integer({ min: -5_000, max: 5_000 });
const quota = {
  meter: fc.constantFrom('requests' as const, 'tokens' as const, 'cost_nanousd' as const),
  limit: fc.nat(3),
  enforcement: fc.constantFrom('soft' as const, 'hard' as const, 'observe' as const),
};
const CALENDAR = ['hour', 'day', 'week', 'month'] as const;
const quotas: fc.Arbitrary<NonNullable<PlanTerms['quotas']>> = fc.uniqueArray(
  fc.oneof(
    fc.record({ ...quota, window: fc.constantFrom(...CALENDAR) }),
    fc.record({
      ...quota,
      window: fc.constantFrom(...CALENDAR, 'lifetime' as const),
      per: fc.constantFrom('end_user' as const, 'session' as const, 'tag' as const),
    }),
  ),
  { maxLength: 3, selector: (each) => `${each.meter} ${each.window} ${'per' in each ? each.per : ''}` },
);
const terms: fc.Arbitrary<PlanTerms> = fc.record(
  { quotas, requests_per_minute: fc.nat(100) },
  { requiredKeys: [] },
);
const planTerms: fc.Arbitrary<PlanTerms> = fc.record(
  { quotas, requests_per_minute: fc.nat(100), prepaid: fc.boolean() },
  { requiredKeys: [] },
);
const windows = fc.constantFrom('keep' as const, 'keep' as const, 'reset' as const);
const whose = fc.nat(11);
/** Few of each, so that filters match several calls. */
export const END_USERS = ['EndUser000000001', 'EndUser000000002'] as const;
export const SESSIONS = ['Session000000001', 'Session000000002'] as const;
export const TAGS = ['Tag0000000000001', 'Tag0000000000002', 'Tag0000000000003'] as const;
export const MODELS = ['m', 'model "\\{two}'] as const;
export const UPSTREAMS = ['one', 'two'] as const;
const attribution = fc.record(
  {
    end_user: fc.constantFrom(...END_USERS),
    session: fc.constantFrom(...SESSIONS),
    tags: fc.shuffledSubarray([...TAGS], { minLength: 1 }),
  },
  { requiredKeys: [] },
);
const anyRoute = fc.constantFrom(...RELAYED_ROUTES);

const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('accept' as const),
      whose,
      model: fc.constantFrom(...MODELS),
      route: anyRoute,
      attribution,
      sse: fc.boolean(),
      count,
      hold: amount,
      cost: fc.option(amount, { nil: undefined }),
      /** How many parents its account has. */
      parents: fc.constantFrom(0, 0, 1, 2),
      /** The limits that would have rejected it, by what they count. */
      observed: fc.oneof(fc.constant<number[]>([]), fc.array(fc.nat(500), { maxLength: 4 })),
      ago: fc.option(fc.constantFrom(...MINUTES_AGO), { freq: 12 }),
      /** How many changes of terms it missed. */
      behind: fc.constantFrom(0, 0, 0, 1, 4, 100),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('extend' as const),
      which: fc.nat(20),
      hold: amount,
      cost: fc.option(amount, { nil: undefined }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('settle' as const),
      which: fc.nat(20),
      reason: fc.constantFrom(...(Object.keys(END_REASONS) as EndReason[])),
      source: fc.constantFrom(...(Object.keys(USAGE_SOURCES) as UsageSource[])),
      status: fc.constantFrom(200, 499, 502),
      upstream: fc.option(fc.constantFrom(...UPSTREAMS), { nil: undefined }),
      input: count,
      output: count,
      cost: fc.option(amount, { nil: undefined }),
      upstreamCost: fc.option(amount, { nil: undefined }),
      first: fc.option(fc.oneof(count, fc.constantFrom(...BUCKET_BOUNDS_MS)), { nil: undefined }),
      duration: fc.oneof(fc.nat(200_000), fc.constantFrom(...BUCKET_BOUNDS_MS)),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('abandon' as const), which: fc.nat(20) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('correct' as const),
      which: fc.nat(20),
      cost: fc.option(delta, { nil: undefined }),
      upstreamCost: fc.option(delta, { nil: undefined }),
      input: fc.option(delta, { nil: undefined }),
      output: fc.option(delta, { nil: undefined }),
      hold: fc.option(delta, { nil: undefined }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('refuse' as const),
      whose,
      model: fc.option(fc.constantFrom(...MODELS), { nil: undefined }),
      route: anyRoute,
      attribution,
      error: fc.constantFrom('rate_limit_exceeded', 'model_not_permitted'),
      times: fc.integer({ min: 1, max: 500 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('plan' as const), whose, terms: planTerms, windows }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('top up' as const),
      whose,
      cost: fc.integer({ min: 1, max: 9 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('parent' as const), whose, isOn: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('retire' as const), whose }) },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('put' as const), whose, isOn: fc.boolean(), windows }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('override' as const), whose, terms: planTerms, windows }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('restrict' as const), whose, terms, windows }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('adjust' as const),
      whose,
      which: fc.nat(2),
      units: fc.integer({ min: -3, max: 3 }).filter((units) => units !== 0),
      ago: fc.constantFrom(...MINUTES_AGO),
      isOfKey: fc.boolean(),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('turn' as const),
      whose,
      to: fc.constantFrom('rotated', 'revoked', 'expired', 'suspended', 'reinstated', 'priced'),
      until: fc.option(fc.constant('2030-01-02T03:04:05.006Z'), { nil: undefined }),
    }),
  },
);
export type HistoryStep = typeof step extends fc.Arbitrary<infer T> ? T : never;

export const anyHistory: fc.Arbitrary<HistoryStep[]> = fc.array(step, {
  minLength: 1,
  maxLength: 60,
  size: 'max',
});

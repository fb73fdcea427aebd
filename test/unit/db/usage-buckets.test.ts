import fc from 'fast-check';
import { expect, test } from 'vitest';
import { UsageQuery } from '#server/contract/usage.ts';
import { planUsage } from '#server/read/usage-plan.ts';
import {
  bucketFor,
  bucketsFor,
  BUCKETS_MS,
  seriesQuery,
  type UsageWanted,
} from '../../../web/features/usage/buckets.ts';
import { RANGES } from '../../../web/lib/search/filter.ts';

/** What the page of usage asks for, whatever stands in its address. */

const NOW_MS = Date.parse('2026-11-22T00:30:15Z');
const DAY_MS = 86_400_000;
const EVERYTHING = { account: null, key: null };

const times = fc.oneof(
  fc.constantFrom(...(Object.keys(RANGES) as (keyof typeof RANGES)[])).map((range) => ({ range })),
  fc
    .tuple(fc.integer({ min: 1, max: 400 * DAY_MS }), fc.integer({ min: 1, max: 400 * DAY_MS }))
    .map(([ago, length]) => {
      const from = NOW_MS - ago;
      return { from: new Date(from).toISOString(), to: new Date(from + length).toISOString() };
    }),
  fc.integer({ min: 1, max: 400 * DAY_MS }).map((ago) => ({ from: new Date(NOW_MS - ago).toISOString() })),
);
const wanted: fc.Arbitrary<UsageWanted> = fc
  .tuple(
    times,
    fc.record({ group: fc.constantFrom('account', 'key', 'model'), hasTimes: fc.boolean() }),
    fc.record(
      {
        key: fc.constant('Key00001'),
        model: fc.constant('m'),
        bucket: fc.constantFrom('minute', 'hour', 'day'),
      },
      { requiredKeys: [] },
    ),
  )
  .map(([time, how, more]) => ({ ...time, ...how, ...more }));

test('the tables can tell what the page asks for, and what it offers to ask for', () => {
  fc.assert(
    fc.property(wanted, (asked) => {
      for (const bucket of [asked.bucket, ...bucketsFor(asked, NOW_MS)]) {
        const query = seriesQuery({ ...asked, ...(bucket === undefined ? {} : { bucket }) }, NOW_MS);
        const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined));
        expect(planUsage(UsageQuery.parse(given), EVERYTHING, NOW_MS)).toBeTypeOf('object');
      }
    }),
  );
});

test('a range begins where a bucket does, and has all of its time', () => {
  fc.assert(
    fc.property(
      wanted,
      fc.constantFrom(...(Object.keys(RANGES) as (keyof typeof RANGES)[])),
      (asked, range) => {
        const { from: _, to: __, ...rest } = asked;
        const unitMs = BUCKETS_MS[bucketFor({ ...rest, range }, NOW_MS)];
        const fromMs = Date.parse(seriesQuery({ ...rest, range }, NOW_MS)['from'] ?? '');
        expect(fromMs % unitMs).toBe(0);
        expect(NOW_MS - fromMs).toBeGreaterThanOrEqual(RANGES[range]);
        expect(NOW_MS - fromMs).toBeLessThan(RANGES[range] + unitMs);
      },
    ),
  );
});

test('what was asked for is kept to where the tables have it, and else made as fine as they do', () => {
  const asked: UsageWanted = { range: '30d', group: 'key', hasTimes: false, bucket: 'minute' };
  expect(bucketFor(asked, NOW_MS)).toBe('day');
  expect(bucketFor({ ...asked, range: '1h' }, NOW_MS)).toBe('minute');
  expect(bucketFor({ group: 'account', hasTimes: false, range: '7d' }, NOW_MS)).toBe('hour');
});

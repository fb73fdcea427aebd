import { array, assert, constantFrom, double, integer, oneof, property } from 'fast-check';
import { expect, test } from 'vitest';
import { END_REASONS } from '#db/events/endings.ts';
import { BUCKET_BOUNDS_MS, bucketOf, BUCKETS, quantileOf } from '#db/projections/buckets.ts';
import { ENDED_OUTCOMES, endReasonCodes } from '#db/projections/outcomes.ts';

const LAST_MS = BUCKET_BOUNDS_MS.at(-1) as number;
const duration = oneof(integer({ min: 0, max: LAST_MS }), constantFrom(...BUCKET_BOUNDS_MS));
const share = double({ min: 0.001, max: 1, noNaN: true });

const countsOf = (durations: readonly number[]): number[] => {
  const counts = Array.from({ length: BUCKETS }, () => 0);
  for (const each of durations) counts[bucketOf(each)] = (counts[bucketOf(each)] as number) + 1;
  return counts;
};

test('a percentile lies in the bucket of its duration', () => {
  assert(
    property(array(duration, { minLength: 1 }), share, (durations, of) => {
      const rank = Math.max(1, Math.ceil(of * durations.length));
      const truth = durations.toSorted((one, other) => one - other)[rank - 1] as number;
      const found = quantileOf(countsOf(durations), of) as number;
      const bucket = bucketOf(truth);
      expect(found).toBeGreaterThanOrEqual(BUCKET_BOUNDS_MS[bucket - 1] ?? 0);
      expect(found).toBeLessThanOrEqual(BUCKET_BOUNDS_MS[bucket] as number);
    }),
  );
});

test('a larger share is never reached sooner', () => {
  assert(
    property(array(duration, { minLength: 1 }), share, share, (durations, one, other) => {
      const counts = countsOf(durations);
      expect(quantileOf(counts, Math.min(one, other))).toBeLessThanOrEqual(
        quantileOf(counts, Math.max(one, other)) as number,
      );
    }),
  );
});

test('an empty histogram has no percentile, and the last bucket is open', () => {
  expect(quantileOf(countsOf([]), 0.5)).toBeNull();
  expect(quantileOf(countsOf([LAST_MS + 1, LAST_MS * 9]), 0.5)).toBe(LAST_MS);
  expect(quantileOf(countsOf([30, 30, 30, 30]), 0.5)).toBe(37.5);
});

test('every end reason has one outcome', () => {
  const codes = ENDED_OUTCOMES.flatMap(endReasonCodes);
  expect(codes.toSorted((one, other) => one - other)).toEqual(
    Object.values(END_REASONS).toSorted((one, other) => one - other),
  );
});

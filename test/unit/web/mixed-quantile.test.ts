import fc from 'fast-check';
import { expect, test } from 'vitest';
import { BUCKETS, bucketOf, quantileOf } from '#db/projections/buckets.ts';
import { mixedQuantile } from '../../../web/lib/feed/mixed-quantile.ts';

/** Percentiles of a report combined with live frames. */

const none = Array.from({ length: BUCKETS }, () => 0);
const countsOf = (durations: readonly number[]): number[] => {
  const counts = [...none];
  for (const ms of durations) counts[bucketOf(ms)] = (counts[bucketOf(ms)] ?? 0) + 1;
  return counts;
};
const SHARES = [0.5, 0.95] as const;

test('each part alone has its own percentiles', () => {
  const counts = countsOf([30, 60, 90, 700, 1_200]);
  for (const share of SHARES) {
    expect(mixedQuantile(null, counts, share)).toBe(quantileOf(counts, share));
    expect(mixedQuantile({ count: 7, p50_ms: 120, p95_ms: 480 }, none, share)).toBe(
      share === 0.5 ? 120 : 480,
    );
    expect(mixedQuantile(null, none, share)).toBeNull();
  }
});

test('a mix lies between its parts, closer to the larger one', () => {
  const durations = fc.array(fc.integer({ min: 1, max: 100_000 }), { minLength: 1, maxLength: 50 });
  fc.assert(
    fc.property(
      durations,
      fc.integer({ min: 1, max: 1_000 }),
      fc.integer({ min: 1, max: 5_000 }),
      fc.integer({ min: 0, max: 5_000 }),
      (list, count, p50_ms, more) => {
        const counts = countsOf(list);
        for (const share of SHARES) {
          const known = share === 0.5 ? p50_ms : p50_ms + more;
          const counted = quantileOf(counts, share) as number;
          const mixed = mixedQuantile({ count, p50_ms, p95_ms: p50_ms + more }, counts, share) as number;
          expect(mixed).toBeGreaterThanOrEqual(Math.min(known, counted) * 0.999 - 0.01);
          expect(mixed).toBeLessThanOrEqual(Math.max(known, counted) * 1.001 + 0.01);
          const flooded = mixedQuantile(
            { count: 1, p50_ms, p95_ms: p50_ms + more },
            counts.map((each) => each * 100_000),
            share,
          ) as number;
          // Where nothing was counted between two durations, any between them is the percentile.
          expect(flooded).toBeGreaterThanOrEqual((quantileOf(counts, share - 0.01) as number) * 0.999 - 0.01);
          expect(flooded).toBeLessThanOrEqual((quantileOf(counts, share + 0.01) as number) * 1.001 + 0.01);
        }
      },
    ),
  );
});

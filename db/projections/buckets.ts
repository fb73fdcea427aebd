/** Histograms of durations: unlike percentiles, their counts can be summed over any time. Pure. */

/** The upper bounds of the buckets, in milliseconds. One more bucket counts the longer durations. */
export const BUCKET_BOUNDS_MS = [
  25, 50, 100, 200, 400, 800, 1_500, 3_000, 6_000, 12_000, 30_000, 60_000, 120_000,
] as const;

/** The number of buckets of a histogram. */
export const BUCKETS = BUCKET_BOUNDS_MS.length + 1;

/** The bucket of a duration, from 0: the first whose bound it does not exceed. */
export function bucketOf(duration_ms: number): number {
  const index = BUCKET_BOUNDS_MS.findIndex((bound) => duration_ms <= bound);
  return index < 0 ? BUCKETS - 1 : index;
}

/**
 * A quantile in milliseconds. Durations are assumed to be spread evenly within a bucket; in the
 * last bucket only its lower bound is known.
 * @param counts one for each bucket.
 * @param share above 0, at most 1: 0.95 asks for the 95th percentile.
 * @returns null where nothing was counted.
 */
export function quantileOf(counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  const rank = share * total;
  let below = 0;
  for (const [index, count] of counts.entries()) {
    const bound = BUCKET_BOUNDS_MS[index];
    if (bound === undefined) break;
    if (count > 0 && below + count >= rank) {
      const floor = BUCKET_BOUNDS_MS[index - 1] ?? 0;
      return floor + ((bound - floor) * Math.max(0, rank - below)) / count;
    }
    below += count;
  }
  return BUCKET_BOUNDS_MS.at(-1) as number;
}

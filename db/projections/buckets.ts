/**
 * Durations by how many took up to each of some bounds: counts that add up over any time, where
 * percentiles don't. Pure.
 */

/** In milliseconds. The last count of a histogram is of what took longer than all of them. */
export const BUCKET_BOUNDS_MS = [
  25, 50, 100, 200, 400, 800, 1_500, 3_000, 6_000, 12_000, 30_000, 60_000, 120_000,
] as const;

/** How many counts a histogram has. */
export const BUCKETS = BUCKET_BOUNDS_MS.length + 1;

/** Which count a duration belongs to, from 0: the first whose bound it does not exceed. */
export function bucketOf(duration_ms: number): number {
  const index = BUCKET_BOUNDS_MS.findIndex((bound) => duration_ms <= bound);
  return index < 0 ? BUCKETS - 1 : index;
}

/**
 * What a share of the counted did not exceed, in milliseconds. Within a bucket they are taken to be
 * spread evenly; of what lies beyond the last bound no more is known than that bound.
 * @param counts one for each bucket, as the tables hold them.
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

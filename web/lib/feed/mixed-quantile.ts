import { BUCKET_BOUNDS_MS, quantileOf } from '#db/projections/buckets.ts';

/** A set of durations known only by its size and two percentiles. */
export type Known = { count: number; p50_ms: number; p95_ms: number };

/**
 * Percentiles of a combined set: one part known by its percentiles, the other as a histogram. Exact if either
 * part is empty. Pure.
 * @param counts as {@link quantileOf} takes them.
 * @returns null for an empty set.
 */
export function mixedQuantile(
  known: Known | null,
  counts: readonly number[],
  share: 0.5 | 0.95,
): number | null {
  const counted = counts.reduce((sum, count) => sum + count, 0);
  if (known === null || known.count === 0) return quantileOf(counts, share);
  if (counted === 0) return share === 0.5 ? known.p50_ms : known.p95_ms;
  // Bisection, since the cumulative share is monotonic.
  let [low, high] = [0, Math.max(known.p95_ms, quantileOf(counts, 1) ?? 0) * 2];
  for (let step = 0; step < 24; step++) {
    const middle = (low + high) / 2;
    const below = known.count * knownShare(known, middle) + countedUpTo(counts, middle);
    if (below < share * (known.count + counted)) low = middle;
    else high = middle;
  }
  return high;
}

/** Linear interpolation between the known percentiles, reaching 1 at twice the 95th. */
function knownShare({ p50_ms, p95_ms }: Known, ms: number): number {
  if (ms >= p95_ms) return p95_ms === 0 ? 1 : Math.min(1, 0.95 + 0.05 * (ms / p95_ms - 1));
  if (ms >= p50_ms) return 0.5 + (0.45 * (ms - p50_ms)) / (p95_ms - p50_ms);
  return (0.5 * ms) / p50_ms;
}

/** The number of durations up to `ms`, uniform within each bucket as in {@link quantileOf}. */
function countedUpTo(counts: readonly number[], ms: number): number {
  let below = 0;
  let floor = 0;
  for (const [index, bound] of BUCKET_BOUNDS_MS.entries()) {
    const count = counts[index] ?? 0;
    if (ms < bound) return below + (count * (ms - floor)) / (bound - floor);
    below += count;
    floor = bound;
  }
  return below + (counts.at(-1) ?? 0);
}

import type { Bucket, UsageGroup } from '#server/contract/usage.ts';
import { type FilterSearch, timeOf } from '../../lib/search/filter.ts';

/** Chooses buckets that the projections retain and that make a readable chart. Pure. */

/** The usage query. */
export type UsageWanted = Pick<FilterSearch, 'account' | 'key' | 'model' | 'range' | 'from' | 'to'> & {
  bucket?: Bucket;
  group: UsageGroup;
  hasTimes: boolean;
};

export const FALLBACK_RANGE = '24h';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
export const BUCKETS_MS: Record<Bucket, number> = { minute: MINUTE_MS, hour: HOUR_MS, day: DAY_MS };
/** The retention of minutes, and of hours per key or model. */
const KEPT_MS = 2 * DAY_MS;
/** More bars are unreadable. */
const BARS_MAX = 400;

/** The buckets available for a range. */
export function bucketsFor(wanted: UsageWanted, nowMs: number): Bucket[] {
  const { fromMs, toMs } = timeOf(wanted, FALLBACK_RANGE, nowMs);
  const isDetailed =
    wanted.key !== undefined ||
    wanted.model !== undefined ||
    (wanted.group !== 'account' && !wanted.hasTimes);
  const isKept = fromMs >= nowMs - KEPT_MS;
  return (['minute', 'hour', 'day'] as const).filter((bucket) => {
    if (bucket === 'minute' ? !isKept : bucket === 'hour' && isDetailed && !isKept) return false;
    return ((toMs ?? nowMs) - fromMs) / BUCKETS_MS[bucket] <= BARS_MAX || bucket === 'day';
  });
}

/** The requested bucket if available, else one with a readable number of bars. */
export function bucketFor(wanted: UsageWanted, nowMs: number): Bucket {
  const possible = bucketsFor(wanted, nowMs);
  if (wanted.bucket && possible.includes(wanted.bucket)) return wanted.bucket;
  const { fromMs, toMs } = timeOf(wanted, FALLBACK_RANGE, nowMs);
  const lengthMs = (toMs ?? nowMs) - fromMs;
  const preferred: Bucket = lengthMs <= 3 * HOUR_MS ? 'minute' : lengthMs <= 8 * DAY_MS ? 'hour' : 'day';
  return possible.find((bucket) => BUCKETS_MS[bucket] >= BUCKETS_MS[preferred]) ?? 'day';
}

export type Query = Record<string, string | undefined>;

/** The query of chart and CSV. A range starts at a bucket boundary. */
export function seriesQuery(wanted: UsageWanted, nowMs: number): Query {
  const { account, key, model, group, hasTimes, to } = wanted;
  const bucket = bucketFor(wanted, nowMs);
  const unitMs = BUCKETS_MS[bucket];
  const { fromMs } = timeOf(wanted, FALLBACK_RANGE, nowMs);
  const alignedMs = wanted.from === undefined ? Math.floor(fromMs / unitMs) * unitMs : fromMs;
  const from = new Date(Math.min(alignedMs, nowMs - 1)).toISOString();
  return {
    account,
    key,
    model,
    from,
    to: wanted.from === undefined ? undefined : to,
    bucket,
    group_by: hasTimes ? undefined : group,
  };
}

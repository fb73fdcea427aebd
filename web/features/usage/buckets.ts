import { FILTER_FIELDS } from '#db/fold/call-filter.ts';
import type { Bucket, UsageGroup } from '#server/contract/usage.ts';
import { type FilterSearch, requestFilterOf, timeOf } from '../../lib/search/filter.ts';

/** Chooses buckets that the projections retain and that make a readable chart. Pure. */

/** The usage query. */
export type UsageWanted = FilterSearch & {
  bucket?: Bucket;
  group: UsageGroup;
  /** Groups of several accounts, of which each row must name its own. */ needsAccount?: boolean;
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

const BUCKETS = ['minute', 'hour', 'day'] as const;
const OF_TABLES: ReadonlySet<UsageGroup> = new Set(['account', 'key', 'model']);

/** Whether the server sums the requests themselves, which have any bucket. */
const isOfRequests = (wanted: UsageWanted): boolean =>
  !OF_TABLES.has(wanted.group) ||
  FILTER_FIELDS.some((field) => !OF_TABLES.has(field) && wanted[field] !== undefined);

/** The buckets available for a range. */
export function bucketsFor(wanted: UsageWanted, nowMs: number): Bucket[] {
  const { fromMs, toMs } = timeOf(wanted, FALLBACK_RANGE, nowMs);
  const isKept = fromMs >= nowMs - KEPT_MS;
  const isReadable = (bucket: Bucket): boolean =>
    ((toMs ?? nowMs) - fromMs) / BUCKETS_MS[bucket] <= BARS_MAX || bucket === 'day';
  if (isOfRequests(wanted)) return BUCKETS.filter(isReadable);
  const isDetailed =
    wanted.key !== undefined ||
    wanted.model !== undefined ||
    (wanted.group !== 'account' && !wanted.hasTimes);
  return BUCKETS.filter((bucket) => {
    if (bucket === 'minute' ? !isKept : bucket === 'hour' && isDetailed && !isKept) return false;
    return isReadable(bucket);
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
  const { group, hasTimes, to } = wanted;
  const bucket = bucketFor(wanted, nowMs);
  const unitMs = BUCKETS_MS[bucket];
  const { fromMs } = timeOf(wanted, FALLBACK_RANGE, nowMs);
  const alignedMs = wanted.from === undefined ? Math.floor(fromMs / unitMs) * unitMs : fromMs;
  const from = new Date(Math.min(alignedMs, nowMs - 1)).toISOString();
  return {
    ...Object.fromEntries(
      Object.entries(requestFilterOf(wanted)).map(([field, value]) => [field, String(value)]),
    ),
    from,
    to: wanted.from === undefined ? undefined : to,
    bucket,
    group_by: hasTimes ? undefined : group,
  };
}

import { FILTER_FIELDS } from '#db/fold/call-filter.ts';
import { USAGE_BUCKETS_MAX, USAGE_MINUTES_SHOWN_MS } from '#server/read/bounds.ts';
import type { Bucket, UsageGroup, UsageQuery } from '#server/contract/usage.ts';
import type { Scope } from '#server/read/scope.ts';

/** The table and grouping of a usage report: the coarsest table that can answer it. Pure. */
export type UsagePlan = {
  table:
    | 'usage_minute'
    | 'usage_minute_total'
    | 'usage_hour_key'
    | 'usage_hour'
    | 'usage_hour_total'
    | 'usage_day'
    | 'usage_day_account'
    | 'request';
  /** The length of a row's interval, and the column with its start; of requests the column of their end. */
  unit: Bucket;
  column: Bucket | 'ended_at';
  /** Milliseconds since 1970, aligned to the table's rows. */
  fromMs: number;
  toMs: number;
  bucket: Bucket | null;
  groups: readonly UsageGroup[];
};

const UNIT_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/**
 * Plans a report. The range is rounded outwards to the rows of the table.
 *
 * By key or model there are minutes and hours, which are kept for two days, and days. By account there are
 * hours and days, and for all accounts together minutes and hours, so that a report of any length reads few
 * rows.
 * @returns a message if the tables don't have the data.
 */
export function planUsage(query: UsageQuery, scope: Scope, nowMs: number): UsagePlan | string {
  const { bucket = null, group_by: groups = [] } = query;
  const toMs = query.to?.getTime() ?? nowMs;
  const fromMs = query.from?.getTime() ?? floorTo(toMs - 1, 'day');
  if (fromMs >= toMs) return 'from must be before to.';

  if (isOfRequests(query)) return planRequests(groups, bucket, fromMs, toMs);
  const isDetailed =
    scope.key !== null ||
    query.key !== undefined ||
    query.model !== undefined ||
    groups.some((group) => group !== 'account');
  const hasMinutes = fromMs >= nowMs - USAGE_MINUTES_SHOWN_MS;
  const isRanking = groups.includes('account') && scope.account === null && query.account === undefined;
  const wanted = bucket ?? coarser(unitOf(fromMs, toMs, nowMs), finestFor(toMs - fromMs, isRanking));
  if (bucket === 'minute' && !hasMinutes)
    return 'Minutes are kept for 48 hours: use a later "from", or bucket=hour.';
  if (bucket === 'hour' && isDetailed && !hasMinutes) {
    return 'Hours by key or model are kept for 48 hours: use a later "from" or bucket=day.';
  }
  const isByAccount = scope.account !== null || query.account !== undefined || isRanking;
  const unit = isDetailed ? detailedUnit(wanted, hasMinutes) : plainUnit(wanted, { isByAccount, hasMinutes });
  const plan: UsagePlan = {
    table: TABLES[unit][isDetailed ? 'detailed' : isByAccount ? 'account' : 'total'],
    unit,
    column: unit,
    fromMs: floorTo(fromMs, bucket ?? unit),
    toMs: ceilTo(toMs, bucket ?? unit),
    bucket,
    groups,
  };
  return withinBuckets(plan);
}

function withinBuckets(plan: UsagePlan): UsagePlan | string {
  const { bucket, fromMs, toMs } = plan;
  return bucket !== null && (toMs - fromMs) / UNIT_MS[bucket] > USAGE_BUCKETS_MAX
    ? `More than ${USAGE_BUCKETS_MAX} buckets: use a shorter range or a larger bucket.`
    : plan;
}

/** What the tables of sums are grouped and filtered by. */
const OF_TABLES: ReadonlySet<UsageGroup> = new Set(['account', 'key', 'model']);
const OF_REQUESTS = FILTER_FIELDS.filter((field) => !OF_TABLES.has(field));

/** Whether only the requests themselves have the groups and filters of a report. */
const isOfRequests = (query: UsageQuery): boolean =>
  OF_REQUESTS.some((field) => query[field] !== undefined) ||
  (query.group_by ?? []).some((group) => !OF_TABLES.has(group));

/** In minutes, as the finest tables have them. */
function planRequests(
  groups: readonly UsageGroup[],
  bucket: Bucket | null,
  fromMs: number,
  toMs: number,
): UsagePlan | string {
  return withinBuckets({
    table: 'request',
    unit: 'minute',
    column: 'ended_at',
    fromMs: floorTo(fromMs, bucket ?? 'minute'),
    toMs: ceilTo(toMs, bucket ?? 'minute'),
    bucket,
    groups,
  });
}

/** The largest unit that the range is aligned to. An end in the future counts as aligned. */
function unitOf(fromMs: number, toMs: number, nowMs: number): Bucket {
  const fits = (unit: Bucket): boolean =>
    fromMs % UNIT_MS[unit] === 0 && (toMs >= nowMs || toMs % UNIT_MS[unit] === 0);
  return fits('day') ? 'day' : fits('hour') ? 'hour' : 'minute';
}

const MINUTES_UP_TO_MS = 3 * UNIT_MS.hour;
const RANKED_BY_HOUR_UP_TO_MS = 2 * UNIT_MS.day;

/** As fine as a range of this length needs, so that the rows stay few; a ranking of accounts has many. */
function finestFor(lengthMs: number, isRanking: boolean): Bucket {
  if (isRanking) return lengthMs <= RANKED_BY_HOUR_UP_TO_MS ? 'hour' : 'day';
  return lengthMs <= MINUTES_UP_TO_MS ? 'minute' : 'hour';
}

const coarser = (one: Bucket, other: Bucket): Bucket => (UNIT_MS[one] > UNIT_MS[other] ? one : other);

/** By key or model: no finer than needed, nor than is kept. */
const detailedUnit = (wanted: Bucket, hasMinutes: boolean): Bucket => (hasMinutes ? wanted : 'day');

/** By account or in total: hours are kept indefinitely. For the total, hours are few enough for days too. */
function plainUnit(
  wanted: Bucket,
  { isByAccount, hasMinutes }: { isByAccount: boolean; hasMinutes: boolean },
): Bucket {
  if (wanted === 'minute') return hasMinutes ? 'minute' : 'hour';
  return isByAccount ? wanted : 'hour';
}

/** The tables by the unit of their rows, and by their grouping. */
const TABLES = {
  minute: { detailed: 'usage_minute', account: 'usage_minute', total: 'usage_minute_total' },
  hour: { detailed: 'usage_hour_key', account: 'usage_hour', total: 'usage_hour_total' },
  day: { detailed: 'usage_day', account: 'usage_day_account', total: 'usage_hour_total' },
} as const;

const floorTo = (ms: number, unit: Bucket): number => Math.floor(ms / UNIT_MS[unit]) * UNIT_MS[unit];
const ceilTo = (ms: number, unit: Bucket): number => Math.ceil(ms / UNIT_MS[unit]) * UNIT_MS[unit];

import { USAGE_BUCKETS_MAX, USAGE_MINUTES_KEPT_MS } from '#server/bounds.ts';
import type { Bucket, UsageGroup, UsageQuery } from '#server/dashboard/contract.ts';
import type { Scope } from '#server/dashboard/scope.ts';

/** From which table a usage report comes, and how: the coarsest that can tell what is asked. Pure. */
export type UsagePlan = {
  table: 'usage_minute' | 'usage_hour' | 'usage_hour_total' | 'usage_day';
  /** The column with the beginning of a row's time. */
  column: 'minute' | 'hour' | 'day';
  /** Milliseconds since 1970, on the bounds of the table's rows. */
  fromMs: number;
  toMs: number;
  bucket: Bucket | null;
  groups: readonly UsageGroup[];
};

const UNIT_MS = { minute: 60_000, hour: 3_600_000, day: 86_400_000 } as const;

/**
 * Plans a report. The time is rounded outwards to the rows of the table.
 *
 * By key or model there are minutes, which are kept for two days, and days. By account, and for all
 * accounts together, there are hours for ever, so a report of any length reads few rows.
 * @returns one line on what can't be told, where the tables don't have it.
 */
export function planUsage(query: UsageQuery, scope: Scope, nowMs: number): UsagePlan | string {
  const { bucket = null, group_by: groups = [] } = query;
  const toMs = query.to?.getTime() ?? nowMs;
  const fromMs = query.from?.getTime() ?? floorTo(toMs - 1, 'day');
  if (fromMs >= toMs) return 'from must be before to.';

  const isDetailed = scope.key !== null || query.key !== undefined || query.model !== undefined || groups.some((group) => group !== 'account');
  const hasMinutes = fromMs >= nowMs - USAGE_MINUTES_KEPT_MS;
  const wanted = bucket ?? coarsestFor(fromMs, toMs, nowMs);
  if (bucket === 'minute' && !hasMinutes) return 'Minutes are kept for 48 hours: ask for a later "from", or for bucket=hour.';
  if (bucket === 'hour' && isDetailed && !hasMinutes) {
    return 'By key or model, hours are kept for 48 hours: ask for a later "from", for bucket=day, or for the whole account.';
  }
  const unit = unitFor(wanted, isDetailed, hasMinutes);
  const plan: UsagePlan = {
    ...tableFor(unit, isDetailed, scope.account !== null || query.account !== undefined || groups.includes('account')),
    fromMs: floorTo(fromMs, bucket ?? unit),
    toMs: ceilTo(toMs, bucket ?? unit),
    bucket,
    groups,
  };
  if (bucket !== null && (plan.toMs - plan.fromMs) / UNIT_MS[bucket] > USAGE_BUCKETS_MAX) {
    return `There are more than ${USAGE_BUCKETS_MAX} such buckets in this time: ask for a shorter one, or for longer buckets.`;
  }
  return plan;
}

/** The largest unit that begins and ends with the time. What ends now has no end in the tables yet. */
function coarsestFor(fromMs: number, toMs: number, nowMs: number): Bucket {
  const fits = (unit: Bucket): boolean => fromMs % UNIT_MS[unit] === 0 && (toMs >= nowMs || toMs % UNIT_MS[unit] === 0);
  return fits('day') ? 'day' : fits('hour') ? 'hour' : 'minute';
}

/** The unit of the rows that are read: not finer than need be, nor than they are kept. */
function unitFor(wanted: Bucket, isDetailed: boolean, hasMinutes: boolean): Bucket {
  if (!isDetailed) return wanted === 'minute' && hasMinutes ? 'minute' : 'hour';
  return wanted !== 'day' && hasMinutes ? 'minute' : 'day';
}

function tableFor(unit: Bucket, isDetailed: boolean, isByAccount: boolean): Pick<UsagePlan, 'table' | 'column'> {
  if (unit === 'hour' && !isDetailed) return { table: isByAccount ? 'usage_hour' : 'usage_hour_total', column: 'hour' };
  return unit === 'day' ? { table: 'usage_day', column: 'day' } : { table: 'usage_minute', column: 'minute' };
}

const floorTo = (ms: number, unit: Bucket): number => Math.floor(ms / UNIT_MS[unit]) * UNIT_MS[unit];
const ceilTo = (ms: number, unit: Bucket): number => Math.ceil(ms / UNIT_MS[unit]) * UNIT_MS[unit];

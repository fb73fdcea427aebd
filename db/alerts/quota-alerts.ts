import type { Alert } from '#db/alerts/alerts.ts';
import { WINDOW_KIND_OF, type WindowKind } from '#db/limits/limits.ts';
import { type Meter, METER_OF } from '#db/limits/meters.ts';
import { parseSubject, PER_HOLDER } from '#db/limits/subjects.ts';
import { windowEnd } from '#db/limits/windows.ts';

/**
 * Alerts of quotas: of accounts and keys, and of each end user, session and tag that terms count apart. There
 * may be millions of the latter, so they have fewer thresholds, and {@link boundApart} bounds their number.
 * Pure.
 */

/** Thresholds of a quota's usage that raise an alert, in percent; the largest first. */
export const QUOTA_PERCENTS = [100, 80, 50] as const;
/** Those of end users, sessions and tags. */
export const APART_PERCENTS = [100, 80] as const;
/**
 * Alerts a day (UTC) about end users, sessions or tags by one threshold of one quota, or by its overdraft.
 * One more says that there are others, and they raise none on that day.
 */
export const APART_ALERTS_MAX = 10;

/** A quota in one window, as `projection.quota_window` has it. */
export type QuotaFigures = {
  subject: string;
  /** What its terms count apart, as in the projection. */
  per: number;
  account: string;
  account_name: string | null;
  meter: number;
  window_kind: number;
  window_start: number;
  reset_position: number;
  cap: number;
  /** The largest limit in force during the window; null: one of those was soft. */
  hard_cap: number | null;
  used: number;
};

/** The name of a window in topics; one that was reset has its own. */
export const windowName = ({
  subject,
  meter,
  window_kind,
  window_start,
  reset_position,
}: Pick<QuotaFigures, 'subject' | 'meter' | 'window_kind' | 'window_start' | 'reset_position'>): string =>
  `${subject}/${meter}/${window_kind}/${window_start}/${reset_position}`;

/** The topics of a window's thresholds, the largest first. A window that was reset has its own topics. */
export function quotaTopics(quota: QuotaFigures): string[] {
  return percentsOf(quota).map((percent) => `quota/${windowName(quota)}/${percent}`);
}

const percentsOf = ({ per }: QuotaFigures): readonly number[] =>
  per === PER_HOLDER ? QUOTA_PERCENTS : APART_PERCENTS;

/**
 * Alerts for the largest threshold that was reached, once: smaller ones are obsolete after it.
 * @param raised topics that were raised.
 */
export function quotaAlert(
  quota: QuotaFigures,
  raised: ReadonlyMap<string, number>,
  nowMs: number,
): Alert | null {
  const limit = limitOfQuota(quota);
  // A quota of 0 has no usage, and the quota of a window that has ended can't be exhausted.
  if (limit === null || quota.cap <= 0) return null;
  const endMs = windowEnd(limit.window, quota.window_start) * 60_000;
  if (endMs <= nowMs) return null;
  const topics = quotaTopics(quota);
  const index = percentsOf(quota).findIndex((percent) => quota.used >= quota.cap * (percent / 100));
  if (index < 0 || topics.slice(0, index + 1).some((topic) => raised.has(topic))) return null;
  return alertOfQuota('quota', topics[index] as string, quota, {
    ...limit,
    percent: percentsOf(quota)[index] as number,
    limit: quota.cap,
    used: quota.used,
    window_starts_at: startOf(quota),
    window_ends_at: endMs === Infinity ? null : new Date(endMs).toISOString(),
  });
}

export const overdraftTopic = (quota: QuotaFigures): string => `overdraft/${windowName(quota)}`;

/** The alert of a hard limit that was exceeded, once for each window, also after its end. */
export function overdraftAlert(quota: QuotaFigures, raised: ReadonlyMap<string, number>): Alert | null {
  const { hard_cap: cap, used } = quota;
  const limit = limitOfQuota(quota);
  const topic = overdraftTopic(quota);
  if (limit === null || cap === null || used <= cap || raised.has(topic)) return null;
  return alertOfQuota('overdraft', topic, quota, {
    ...limit,
    limit: cap,
    used,
    overdraft: used - cap,
    window_starts_at: startOf(quota),
  });
}

/** Null where a newer version wrote the quota. */
export function limitOfQuota({
  meter,
  window_kind,
}: Pick<QuotaFigures, 'meter' | 'window_kind'>): { meter: Meter; window: WindowKind } | null {
  const known = { meter: METER_OF.get(meter), window: WINDOW_KIND_OF.get(window_kind) };
  return known.meter === undefined || known.window === undefined
    ? null
    : { meter: known.meter, window: known.window };
}

const startOf = ({ window_start }: QuotaFigures): string => new Date(window_start * 60_000).toISOString();

/** An alert about a quota. @param details what its line says. */
export function alertOfQuota(
  kind: 'quota' | 'overdraft' | 'budget_forecast',
  topic: string,
  { subject, account, account_name }: Pick<QuotaFigures, 'subject' | 'account' | 'account_name'>,
  details: Alert['details'],
): Alert {
  const { kind: whose, key, pseudonym } = parseSubject(subject);
  return {
    topic,
    ordinal: 1,
    kind,
    state: 'raised',
    account,
    details: {
      account_name,
      subject,
      ...(key === null ? {} : { key }),
      ...(pseudonym === null ? {} : { per: whose, [whose]: pseudonym }),
      ...details,
    },
  };
}

/** The details by which alerts of end users, sessions and tags are counted, beside their kind and account. */
export const APART_COUNTED_BY = ['key', 'per', 'meter', 'window', 'percent'] as const;

/** Which of them an alert is counted with; null: its number needs no bound. */
export function apartGroup({
  kind,
  account,
  details,
}: Pick<Alert, 'kind' | 'account' | 'details'>): string | null {
  if (details['per'] === undefined) return null;
  return [kind, account, ...APART_COUNTED_BY.map((name) => details[name])]
    .filter((part) => part !== undefined && part !== null)
    .join('/');
}

/**
 * The alerts to raise: of those with a group the first ten of a day, and one that says that there are more.
 * @param counts by group the alerts that were raised today.
 */
export function boundApart(
  due: readonly Alert[],
  counts: ReadonlyMap<string, number>,
  nowMs: number,
): Alert[] {
  const today = new Map(counts);
  return due.flatMap((alert) => {
    const group = apartGroup(alert);
    if (group === null) return [alert];
    const count = today.get(group) ?? 0;
    today.set(group, count + 1);
    if (count < APART_ALERTS_MAX) return [alert];
    return count === APART_ALERTS_MAX ? [othersAlert(alert, group, nowMs)] : [];
  });
}

function othersAlert(alert: Alert, group: string, nowMs: number): Alert {
  const { details } = alert;
  const shared = ['account_name', ...APART_COUNTED_BY].flatMap((name) => {
    const value = details[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...alert,
    topic: `others/${group}/${new Date(nowMs).toISOString().slice(0, 10)}`,
    details: { ...Object.fromEntries(shared), others_than: APART_ALERTS_MAX },
  };
}

import { WINDOW_KIND_OF } from '#db/limits/limits.ts';
import { METER_OF } from '#db/limits/meters.ts';
import { windowEnd } from '#db/limits/windows.ts';

/**
 * Decides which alerts are due, given the figures. Pure. An alert is an occurrence of a topic: the
 * occurrences that were raised before decide whether it is new.
 */

export const ALERT_KINDS = [
  'quota',
  'overdraft',
  'key_expiring',
  'upstream_failing',
  'implausible_usage',
  'projector_behind',
  'job_failing',
] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

export type Alert = {
  topic: string;
  /** The occurrence; a lasting condition is raised with odd numbers and recovers with even ones. */
  ordinal: number;
  kind: AlertKind;
  state: 'raised' | 'recovered';
  /** The account concerned; null: the installation. */
  account: string | null;
  details: Record<string, string | number | boolean | null>;
};

/** Thresholds of a quota's usage that raise an alert, in percent; the largest first. */
export const QUOTA_PERCENTS = [100, 80, 50] as const;

/** A quota in one window, as `projection.quota_window` has it. */
export type QuotaFigures = {
  subject: string;
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

/** The topics of a window's thresholds, the largest first. A window that was reset has its own topics. */
export function quotaTopics(quota: QuotaFigures): string[] {
  const { subject, meter, window_kind, window_start, reset_position } = quota;
  return QUOTA_PERCENTS.map(
    (percent) => `quota/${subject}/${meter}/${window_kind}/${window_start}/${reset_position}/${percent}`,
  );
}

/**
 * Alerts for the largest threshold that was reached, once: smaller ones are obsolete after it.
 * @param raised topics that were raised.
 */
export function quotaAlert(
  quota: QuotaFigures,
  raised: ReadonlyMap<string, number>,
  nowMs: number,
): Alert | null {
  const meter = METER_OF.get(quota.meter);
  const window = WINDOW_KIND_OF.get(quota.window_kind);
  // A quota of 0 has no usage, and the quota of a window that has ended can't be exhausted.
  if (meter === undefined || window === undefined || quota.cap <= 0) return null;
  const endMs = windowEnd(window, quota.window_start) * 60_000;
  if (endMs <= nowMs) return null;
  const topics = quotaTopics(quota);
  const index = QUOTA_PERCENTS.findIndex((percent) => quota.used >= quota.cap * (percent / 100));
  if (index < 0 || topics.slice(0, index + 1).some((topic) => raised.has(topic))) return null;
  return {
    topic: topics[index] as string,
    ordinal: 1,
    kind: 'quota',
    state: 'raised',
    account: quota.account,
    details: {
      account_name: quota.account_name,
      subject: quota.subject,
      meter,
      window,
      percent: QUOTA_PERCENTS[index] as number,
      limit: quota.cap,
      used: quota.used,
      window_starts_at: new Date(quota.window_start * 60_000).toISOString(),
      window_ends_at: endMs === Infinity ? null : new Date(endMs).toISOString(),
    },
  };
}

export function overdraftTopic(quota: QuotaFigures): string {
  const { subject, meter, window_kind, window_start, reset_position } = quota;
  return `overdraft/${subject}/${meter}/${window_kind}/${window_start}/${reset_position}`;
}

/** The alert of a hard limit that was exceeded, once for each window, also after its end. */
export function overdraftAlert(quota: QuotaFigures, raised: ReadonlyMap<string, number>): Alert | null {
  const { hard_cap: limit, used } = quota;
  const meter = METER_OF.get(quota.meter);
  const window = WINDOW_KIND_OF.get(quota.window_kind);
  const topic = overdraftTopic(quota);
  if (meter === undefined || window === undefined || limit === null || used <= limit || raised.has(topic))
    return null;
  return {
    topic,
    ordinal: 1,
    kind: 'overdraft',
    state: 'raised',
    account: quota.account,
    details: {
      account_name: quota.account_name,
      subject: quota.subject,
      meter,
      window,
      limit,
      used,
      overdraft: used - limit,
      window_starts_at: new Date(quota.window_start * 60_000).toISOString(),
    },
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** How many days before its expiry a key raises an alert; the nearest first. */
export const KEY_NOTICE_DAYS = [1, 7] as const;

export type EndingKey = {
  id: string;
  account: string;
  account_name: string | null;
  name: string;
  created_at: Date;
  expires_at: Date;
};

/** The topics of a key's notices, the nearest first. A changed expiry has its own topics. */
export function keyTopics({ id, expires_at }: EndingKey): string[] {
  return KEY_NOTICE_DAYS.map((days) => `key_expiring/${id}/${expires_at.toISOString()}/${days}`);
}

/**
 * The nearest notice that is due, once. The creator of a key knows of a notice that was due before its
 * creation.
 */
export function keyAlert(key: EndingKey, raised: ReadonlyMap<string, number>, nowMs: number): Alert | null {
  const endMs = key.expires_at.getTime();
  if (endMs <= nowMs) return null;
  const topics = keyTopics(key);
  const index = KEY_NOTICE_DAYS.findIndex((days) => {
    const dueMs = endMs - days * DAY_MS;
    return dueMs <= nowMs && dueMs >= key.created_at.getTime();
  });
  if (index < 0 || topics.slice(0, index + 1).some((topic) => raised.has(topic))) return null;
  return {
    topic: topics[index] as string,
    ordinal: 1,
    kind: 'key_expiring',
    state: 'raised',
    account: key.account,
    details: {
      account_name: key.account_name,
      key: key.id,
      key_name: key.name,
      expires_at: key.expires_at.toISOString(),
      days: KEY_NOTICE_DAYS[index] as number,
    },
  };
}

/** Minimum requests to judge an upstream: fewer are not significant. */
const UPSTREAM_CALLS_MIN = 20;
/** When half of the requests fail, the upstream is at fault and not a few callers. */
const UPSTREAM_FAILING_SHARE = 0.5;
/** Well below the raising threshold (hysteresis), so that the alert does not flap. */
const UPSTREAM_RECOVERED_SHARE = 0.2;

type UpstreamFigures = { upstream: string; ended: number; failed: number };

export const upstreamTopic = (upstream: string): string => `upstream_failing/${upstream}`;

/** @param last the newest occurrence of its topic, raised or recovered; 0: none. */
export function upstreamAlert({ upstream, ended, failed }: UpstreamFigures, last: number): Alert | null {
  if (ended < UPSTREAM_CALLS_MIN) return null;
  const share = failed / ended;
  const changes = isOpen(last) ? share <= UPSTREAM_RECOVERED_SHARE : share >= UPSTREAM_FAILING_SHARE;
  return changes
    ? lasting('upstream_failing', upstreamTopic(upstream), last, { upstream, ended, failed })
    : null;
}

/** Calls whose upstream reported an impossible usage, and that were estimated. */
type ImplausibleFigures = { upstream: string; model: string; calls: number };

/** Of each model of an upstream, one a day. */
export const implausibleTopic = (
  { upstream, model }: Pick<ImplausibleFigures, 'upstream' | 'model'>,
  nowMs: number,
): string => `implausible_usage/${upstream}/${new Date(nowMs).toISOString().slice(0, 10)}/${model}`;

/** @param raised topics that were raised. */
export function implausibleAlert(
  figures: ImplausibleFigures,
  raised: ReadonlyMap<string, number>,
  nowMs: number,
): Alert | null {
  const topic = implausibleTopic(figures, nowMs);
  if (raised.has(topic)) return null;
  return {
    topic,
    ordinal: 1,
    kind: 'implausible_usage',
    state: 'raised',
    account: null,
    details: { ...figures },
  };
}

/**
 * Lists may be this stale before the alert is raised; a rebuild of one projection takes longer, and is
 * expected to raise it.
 */
export const BEHIND_MS = 60_000;
const CAUGHT_UP_MS = 5_000;

export const PROJECTOR_TOPIC = 'projector_behind';

/** The lag of the projections: events, and the age of the oldest event that they lack. */
type BehindFigures = { events: number; ms: number };

/** @param last the newest occurrence, raised or recovered; 0: none. */
export function projectorAlert({ events, ms }: BehindFigures, last: number): Alert | null {
  const changes = isOpen(last) ? ms <= CAUGHT_UP_MS : ms >= BEHIND_MS;
  return changes ? lasting('projector_behind', PROJECTOR_TOPIC, last, { events, ms }) : null;
}

/** Failed runs in a row after which a job is failing: a restart of the database fails one. */
const JOB_FAILURES_MIN = 2;
/** Or this long after its first failed run, for jobs that run once an hour. */
const JOB_FAILING_MS = 5 * 60_000;

/** The failed runs of a job since its last successful one. */
type JobFigures = { task: string; failures: number; failing_ms: number; reason: string | null };

export const jobTopic = (task: string): string => `job_failing/${task}`;

/** @param last the newest occurrence of its topic, raised or recovered; 0: none. */
export function jobAlert({ task, failures, failing_ms, reason }: JobFigures, last: number): Alert | null {
  const isFailing = failures >= JOB_FAILURES_MIN || (failures > 0 && failing_ms >= JOB_FAILING_MS);
  const changes = isOpen(last) ? failures === 0 : isFailing;
  return changes ? lasting('job_failing', jobTopic(task), last, { job: task, failures, reason }) : null;
}

const isOpen = (last: number): boolean => last % 2 === 1;

function lasting(kind: AlertKind, topic: string, last: number, details: Alert['details']): Alert {
  return {
    topic,
    ordinal: last + 1,
    kind,
    state: isOpen(last) ? 'recovered' : 'raised',
    account: null,
    details,
  };
}

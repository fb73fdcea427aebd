import type { CallFilter } from '#db/fold/call-filter.ts';

/**
 * Decides which alerts are due, given the figures. Pure. An alert is an occurrence of a topic: the
 * occurrences that were raised before decide whether it is new.
 */

export const ALERT_KINDS = [
  'quota',
  'overdraft',
  'budget_forecast',
  'usage_anomaly',
  'key_expiring',
  'upstream_failing',
  'implausible_usage',
  'background_lost',
  'batch_lost',
  'statement_email_failed',
  'projector_behind',
  'job_failing',
  'sink_failing',
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

/**
 * The fields of the filter of calls that an alert can have: `account`, and those of its details, which a
 * filter must be contained in. No alert is about a route, an outcome, a status or an error code.
 */
export const ALERT_DETAIL_FIELDS = [
  'key',
  'model',
  'upstream',
  'end_user',
  'session',
  'tag',
] as const satisfies readonly (keyof CallFilter)[];
export const ALERT_FILTER_FIELDS = ['account', ...ALERT_DETAIL_FIELDS] as const;
export type AlertFilter = Pick<CallFilter, (typeof ALERT_FILTER_FIELDS)[number]>;

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

/** Whether the newest occurrence of a lasting condition was raised and has not recovered. */
export const isOpen = (last: number): boolean => last % 2 === 1;

/** The next occurrence of a lasting condition: raised, or recovered where it is open. */
export function lasting(kind: AlertKind, topic: string, last: number, details: Alert['details']): Alert {
  return {
    topic,
    ordinal: last + 1,
    kind,
    state: isOpen(last) ? 'recovered' : 'raised',
    account: null,
    details,
  };
}

import { WINDOW_KIND_OF } from '#db/limits/limits.ts';
import { METER_OF } from '#db/limits/meters.ts';
import { windowEnd } from '#db/limits/windows.ts';

/**
 * Which alerts are due, from figures that somebody has read. Pure. An alert is a topic and which time
 * it is: what was raised under that topic before says whether there is news.
 */

export const ALERT_KINDS = ['quota', 'key_expiring', 'upstream_failing', 'projector_behind'] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

export type Alert = {
  topic: string;
  /** Which time; what lasts is raised with odd numbers and recovers with even ones. */
  ordinal: number;
  kind: AlertKind;
  state: 'raised' | 'recovered';
  /** Whom it is about; null: the installation. */
  account: string | null;
  details: Record<string, string | number | boolean | null>;
};

/** Shares of a quota that are told when they are used, in percent; the largest first. */
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
  used: number;
};

/** The topics of a window's shares, the largest first. A window that began anew is another. */
export function quotaTopics(quota: QuotaFigures): string[] {
  const { subject, meter, window_kind, window_start, reset_position } = quota;
  return QUOTA_PERCENTS.map(
    (percent) => `quota/${subject}/${meter}/${window_kind}/${window_start}/${reset_position}/${percent}`,
  );
}

/**
 * The largest share that is used, once: smaller ones are no news after it.
 * @param raised topics that were raised.
 */
export function quotaAlert(
  quota: QuotaFigures,
  raised: ReadonlyMap<string, number>,
  nowMs: number,
): Alert | null {
  const meter = METER_OF.get(quota.meter);
  const window = WINDOW_KIND_OF.get(quota.window_kind);
  // Nothing is used of a quota of nothing, and a window that is over has no quota to run out.
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
      window_ends_at: new Date(endMs).toISOString(),
    },
  };
}

const DAY_MS = 24 * 60 * 60 * 1000;
/** How long before its end a key is told of; the nearest first. */
export const KEY_NOTICE_DAYS = [1, 7] as const;

export type EndingKey = {
  id: string;
  account: string;
  account_name: string | null;
  name: string;
  created_at: Date;
  expires_at: Date;
};

/** The topics of a key's notices, the nearest first. With another end it is told of again. */
export function keyTopics({ id, expires_at }: EndingKey): string[] {
  return KEY_NOTICE_DAYS.map((days) => `key_expiring/${id}/${expires_at.toISOString()}/${days}`);
}

/**
 * The nearest notice that is due, once. One that was due before the key was made is no news to who made it.
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

/** Calls to judge an upstream by: fewer say nothing. */
const UPSTREAM_CALLS_MIN = 20;
/** Half of the calls failing is a fault of the upstream and not of some callers. */
const UPSTREAM_FAILING_SHARE = 0.5;
/** Well below where it was raised, so that it does not come and go. */
const UPSTREAM_WELL_SHARE = 0.2;

export type UpstreamFigures = { upstream: string; ended: number; failed: number };

export const upstreamTopic = (upstream: string): string => `upstream_failing/${upstream}`;

/** @param last how often its topic was raised or recovered; 0: never. */
export function upstreamAlert({ upstream, ended, failed }: UpstreamFigures, last: number): Alert | null {
  if (ended < UPSTREAM_CALLS_MIN) return null;
  const share = failed / ended;
  const turns = isOpen(last) ? share <= UPSTREAM_WELL_SHARE : share >= UPSTREAM_FAILING_SHARE;
  return turns
    ? lasting('upstream_failing', upstreamTopic(upstream), last, { upstream, ended, failed })
    : null;
}

/**
 * What lists show may be this old before somebody is told; a rebuild of one projection takes longer, and is
 * meant.
 */
const BEHIND_MS = 60_000;
const CAUGHT_UP_MS = 5_000;

export const PROJECTOR_TOPIC = 'projector_behind';

/** How far the projections are behind: events, and the age of the oldest that they lack. */
export type BehindFigures = { events: number; ms: number };

/** @param last how often it was raised or recovered; 0: never. */
export function projectorAlert({ events, ms }: BehindFigures, last: number): Alert | null {
  const turns = isOpen(last) ? ms <= CAUGHT_UP_MS : ms >= BEHIND_MS;
  return turns ? lasting('projector_behind', PROJECTOR_TOPIC, last, { events, ms }) : null;
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

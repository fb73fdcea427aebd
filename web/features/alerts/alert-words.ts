import type { AlertKind } from '#db/alerts/alerts.ts';
import { type Meter, METERS } from '#db/limits/meters.ts';
import { PER, type Per } from '#db/limits/subjects.ts';
import type { AlertRow, DeliveryRow } from '#server/contract/alerts.ts';
import { limitTitle } from '../../lib/format/limits.ts';
import { showCost, showCount, showDuration } from '../../lib/format/show.ts';

/** Texts for alerts and their deliveries. Pure. */

/** Each kind of alert with its description. */
export const ALERTS: Record<AlertKind, { name: string; about: string }> = {
  quota: {
    name: 'Quota usage',
    about: 'A quota reaches 50, 80 or 100%; of an end user, session or tag 80 or 100%.',
  },
  overdraft: { name: 'Exceeded hard limits', about: 'More of a hard limit is used than it allows.' },
  key_expiring: { name: 'Expiring keys', about: 'A key expires in seven days, and again in one day.' },
  upstream_failing: {
    name: 'Failing upstreams',
    about: 'Half of at least 20 requests within five minutes failed, and when it recovers.',
  },
  implausible_usage: {
    name: 'Implausible usage',
    about: 'An upstream reports more usage of a model than is possible; once a day.',
  },
  projector_behind: {
    name: 'Delayed figures',
    about: 'Lists and figures are more than a minute old, and when they have caught up.',
  },
  job_failing: {
    name: 'Failing jobs',
    about: 'A background job failed twice in a row or for five minutes, and when it recovers.',
  },
};
export const KINDS = Object.keys(ALERTS) as AlertKind[];

const text = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '?';
const count = (value: unknown): string => (typeof value === 'number' ? showCount(value) : '?');
const amount = (meter: unknown, value: unknown): string =>
  METERS[meter as Meter]?.format === 'nanousd' && typeof value === 'number' ? showCost(value) : count(value);

const failureRate = ({ failed, ended }: AlertRow['details']): string =>
  `${count(failed)} of ${count(ended)} requests failed`;
const lag = ({ ms, events }: AlertRow['details']): string =>
  `${typeof ms === 'number' ? showDuration(ms) : '?'} (${count(events)} events)`;

/** The limit, after whose it is where it is not the account's. */
function limitOf({ key, per, meter, window, ...details }: AlertRow['details']): string {
  const title = limitTitle({ meter, window } as Parameters<typeof limitTitle>[0]);
  const ofKey = key === undefined ? '' : `Key ${text(key)}: `;
  if (typeof per !== 'string') return `${ofKey}${title}`;
  const [one, several] = PER[per as Per]?.names ?? [per, per];
  const whose = details[per] === undefined ? several : `${one} ${text(details[per])}`;
  return `${ofKey}${whose}: ${title}`.replace(/^./, (first) => first.toUpperCase());
}

const moreThan = (others: unknown): string =>
  `more than ${text(others)} today; no further alerts until tomorrow (UTC)`;

/** The alert in one sentence. Account and time are shown next to it. */
export function alertLine({ kind, state, details }: Pick<AlertRow, 'kind' | 'state' | 'details'>): string {
  switch (kind) {
    case 'quota': {
      const { percent, meter, limit, used, others_than: others } = details;
      if (others !== undefined) return `${limitOf(details)}: ${text(percent)}% used by ${moreThan(others)}.`;
      const share = `${amount(meter, used)} of ${amount(meter, limit)}`;
      return `${limitOf(details)}: ${text(percent)}% used (${share}).`;
    }
    case 'overdraft': {
      const { meter, limit, used, overdraft, others_than: others } = details;
      if (others !== undefined) return `${limitOf(details)}: hard limit exceeded by ${moreThan(others)}.`;
      const share = `${amount(meter, used)} used of ${amount(meter, limit)}`;
      return `${limitOf(details)}: hard limit exceeded by ${amount(meter, overdraft)} (${share}).`;
    }
    case 'key_expiring': {
      const { key_name: name, key, days } = details;
      return `Key “${text(name ?? key)}” expires in ${days === 1 ? '1 day' : `${text(days)} days`}.`;
    }
    case 'upstream_failing':
      return state === 'recovered'
        ? `Upstream ${text(details['upstream'])} recovered.`
        : `Upstream ${text(details['upstream'])} is failing: ${failureRate(details)} within five minutes.`;
    case 'implausible_usage':
      return (
        `Upstream ${text(details['upstream'])} reported implausible usage of ${text(details['model'])} ` +
        `(${count(details['calls'])} requests); their usage is estimated.`
      );
    case 'projector_behind':
      return state === 'recovered'
        ? 'Lists and figures have caught up with the event log.'
        : `Lists and figures are ${lag(details)} behind the event log.`;
    case 'job_failing':
      return state === 'recovered'
        ? `Background job ${text(details['job'])} recovered.`
        : `Background job ${text(details['job'])} is failing: ${text(details['reason'])}.`;
    case 'test':
      return 'Test alert.';
  }
}

/** Display name of the alert kind of a delivery. */
export const kindName = (kind: string): string =>
  kind === 'test' ? 'Test' : Object.hasOwn(ALERTS, kind) ? ALERTS[kind as AlertKind].name : kind;

/** The result of one delivery attempt. */
export function attemptLine({
  status,
  error: fault,
  duration_ms: durationMs,
}: DeliveryRow['attempts'][number]): string {
  const result =
    status === null
      ? (fault ?? 'No response')
      : status >= 200 && status < 300
        ? `Accepted with ${status}`
        : `Rejected with ${status}`;
  return `${result} after ${showDuration(durationMs)}`;
}

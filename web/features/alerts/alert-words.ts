import type { AlertKind } from '#db/alerts/alerts.ts';
import { type Meter, METERS } from '#db/limits/meters.ts';
import type { AlertRow, DeliveryRow } from '#server/contract/alerts.ts';
import { showCost, showCount, showDuration } from '../../lib/show.ts';

/** Alerts and what became of them, in words. Pure. */

/** What each kind of alert tells of, for those who choose. */
export const ALERTS: Record<AlertKind, { name: string; about: string }> = {
  quota: { name: 'Quotas', about: 'When 50, 80 and 100 % of a quota are used.' },
  key_expiring: { name: 'Keys that expire', about: 'Seven days and one day before a key ends.' },
  upstream_failing: {
    name: 'Failing upstreams',
    about: 'When half of at least 20 calls in five minutes failed, and when it works again.',
  },
  projector_behind: {
    name: 'Figures behind',
    about: 'When lists and figures are older than a minute, and when they have caught up.',
  },
};
export const KINDS = Object.keys(ALERTS) as AlertKind[];

const text = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '?';
const count = (value: unknown): string => (typeof value === 'number' ? showCount(value) : '?');
const amount = (meter: unknown, value: unknown): string =>
  METERS[meter as Meter]?.format === 'microusd' && typeof value === 'number'
    ? showCost(value)
    : `${count(value)} ${text(METERS[meter as Meter]?.name ?? meter)}`;

/** What happened, in a sentence. The account and the time stand beside it. */
export function alertLine({ kind, state, details }: Pick<AlertRow, 'kind' | 'state' | 'details'>): string {
  switch (kind) {
    case 'quota': {
      const { percent, meter, window, limit, used, subject } = details;
      const whose = text(subject).startsWith('key/') ? ` of key ${text(subject).slice('key/'.length)}` : '';
      return `${text(percent)} % of the quota${whose} is used: ${amount(meter, used)} of ${amount(meter, limit)} this ${text(window)}.`;
    }
    case 'key_expiring': {
      const { key_name: name, key, days } = details;
      return `Key “${text(name ?? key)}” ends within ${days === 1 ? 'a day' : `${text(days)} days`}.`;
    }
    case 'upstream_failing':
      return state === 'recovered'
        ? `Upstream ${text(details['upstream'])} works again.`
        : `Upstream ${text(details['upstream'])} fails: ${count(details['failed'])} of ${count(details['ended'])} calls within five minutes.`;
    case 'projector_behind':
      return state === 'recovered'
        ? 'Lists and figures have caught up with the log.'
        : `Lists and figures are behind the log by ${typeof details['ms'] === 'number' ? showDuration(details['ms']) : '?'}, ${count(details['events'])} events.`;
    case 'test':
      return 'A test that somebody asked for.';
  }
}

/** The same for the kind of alert that a delivery carries. */
export const kindName = (kind: string): string =>
  kind === 'test' ? 'Test' : Object.hasOwn(ALERTS, kind) ? ALERTS[kind as AlertKind].name : kind;

/** What the receiver did, attempt by attempt. */
export function attemptLine({
  status,
  error: fault,
  duration_ms: durationMs,
}: DeliveryRow['attempts'][number]): string {
  const what =
    status === null
      ? (fault ?? 'no reply')
      : status >= 200 && status < 300
        ? `taken with ${status}`
        : `refused with ${status}`;
  return `${what}, after ${showDuration(durationMs)}`;
}

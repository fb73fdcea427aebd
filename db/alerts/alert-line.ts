import type { Alert, AlertKind } from '#db/alerts/alerts.ts';
import { type Meter, METERS } from '#db/limits/meters.ts';
import { PER, type Per } from '#db/limits/subjects.ts';
import { limitTitle } from '#db/limits/titles.ts';

/** An alert in one sentence, for lists and messages. Pure. */

/** How a reader's numbers and times are written. */
export type AlertFormat = {
  count: (value: number) => string;
  cost: (nanousd: number) => string;
  duration: (ms: number) => string;
  /** @param at ISO 8601. */
  time: (at: string) => string;
};

/** An alert as a reader has it: `details` of an older version may lack fields. */
export type ReadAlert = Pick<Alert, 'state'> & {
  kind: AlertKind | 'test';
  details: Record<string, unknown>;
};

/** The alert in one sentence. Account and time are shown next to it. */
export function alertLine({ kind, state, details }: ReadAlert, format: AlertFormat): string {
  const { count, amount, time, duration } = readers(format);
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
    case 'budget_forecast': {
      const { meter, limit, projected, low, high, exhausted_at: at, others_than: others } = details;
      if (others !== undefined)
        return `${limitOf(details)}: projected to be exceeded by ${moreThan(others)}.`;
      const range = `${amount(meter, low)} to ${amount(meter, high)}`;
      const exhausted = at === null ? '' : `, exhausted about ${time(at)}`;
      const share = `${amount(meter, projected)} of ${amount(meter, limit)}`;
      return `${limitOf(details)}: projected to reach ${share} (80% range ${range})${exhausted}.`;
    }
    case 'usage_anomaly': {
      const { meter, used, usual, hour_starts_at: from, others_than: others } = details;
      if (others !== undefined) return `Unusual usage of ${moreThan(others)}.`;
      const units = METERS[meter as Meter]?.format === 'nanousd' ? '' : ` ${text(meter)}`;
      const figures = `${amount(meter, used)}${units} in the hour from ${time(from)}`;
      return `${scopeOf(details)} used ${figures}; usually about ${amount(meter, usual)}.`;
    }
    case 'key_expiring': {
      const { key_name: name, key, days } = details;
      return `Key “${text(name ?? key)}” expires in ${days === 1 ? '1 day' : `${text(days)} days`}.`;
    }
    case 'upstream_failing':
      return state === 'recovered'
        ? `Upstream ${text(details['upstream'])} recovered.`
        : `Upstream ${text(details['upstream'])} is failing: ${count(details['failed'])} of ` +
            `${count(details['ended'])} requests failed within five minutes.`;
    case 'implausible_usage':
      return (
        `Upstream ${text(details['upstream'])} reported implausible usage of ${text(details['model'])} ` +
        `(${count(details['calls'])} requests); their usage is estimated.`
      );
    case 'background_lost':
      return (
        `The background response of request ${text(details['request'])} by upstream ` +
        `${text(details['upstream'])} is lost; its whole reservation is charged.`
      );
    case 'batch_lost':
      return (
        `Batch ${text(details['batch'])} of ${count(details['lines'])} lines by upstream ` +
        `${text(details['upstream'])} is lost; the reservations of its lines without output are charged.`
      );
    case 'statement_email_failed': {
      const { period, invoice, reason, attempts } = details;
      const what = typeof period === 'string' ? `Statement of ${period}` : `Invoice number ${text(invoice)}`;
      return `${what} could not be sent by email after ${count(attempts)} attempts: ${text(reason)}.`;
    }
    case 'projector_behind': {
      const { ms, events } = details;
      const lag = `${duration(ms)} (${count(events)} events)`;
      return state === 'recovered'
        ? 'Lists and figures have caught up with the event log.'
        : `Lists and figures are ${lag} behind the event log.`;
    }
    case 'job_failing':
      return state === 'recovered'
        ? `Background job ${text(details['job'])} recovered.`
        : `Background job ${text(details['job'])} is failing: ${text(details['reason'])}.`;
    case 'sink_failing':
      return sinkLine({ state, details }, format);
    case 'test':
      return 'Test alert.';
  }
}

/** A sink that fails has a fault; without one it is delivered to, too slowly. */
function sinkLine({ state, details }: Pick<ReadAlert, 'state' | 'details'>, format: AlertFormat): string {
  const { count, duration } = readers(format);
  const { failures, fault, behind, behind_ms: ms } = details;
  const sink = `Sink ${text(details['sink'])}`;
  if (state === 'recovered') return `${sink} recovered; all events are delivered.`;
  const lag = `${count(behind)} events behind, the oldest ${duration(ms)} old`;
  return failures === 0
    ? `${sink} is too slow: ${lag}.`
    : `${sink} is failing: ${count(failures)} failed deliveries in a row (${text(fault)}), ${lag}.`;
}

const text = (value: unknown): string =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : '?';

const moreThan = (others: unknown): string =>
  `more than ${text(others)} today; no further alerts until tomorrow (UTC)`;

function readers(format: AlertFormat) {
  const count = (value: unknown): string => (typeof value === 'number' ? format.count(value) : '?');
  return {
    count,
    amount: (meter: unknown, value: unknown): string =>
      METERS[meter as Meter]?.format === 'nanousd' && typeof value === 'number'
        ? format.cost(value)
        : count(value),
    time: (at: unknown): string => (typeof at === 'string' ? format.time(at) : '?'),
    duration: (ms: unknown): string => (typeof ms === 'number' ? format.duration(ms) : '?'),
  };
}

/** The limit, after its owner where that isn't the account. */
function limitOf({ key, per, meter, window, ...details }: ReadAlert['details']): string {
  const title = limitTitle({ meter, window } as Parameters<typeof limitTitle>[0]);
  const ofKey = key === undefined ? '' : `Key ${text(key)}: `;
  if (typeof per !== 'string') return `${ofKey}${title}`;
  const [one, several] = PER[per as Per]?.names ?? [per, per];
  const whose = details[per] === undefined ? several : `${one} ${text(details[per])}`;
  return `${ofKey}${whose}: ${title}`.replace(/^./, (first) => first.toUpperCase());
}

/** The subject whose usage is unusual. */
function scopeOf({ key, key_name: name, model, end_user: user }: ReadAlert['details']): string {
  if (key !== undefined) return `Key “${text(name ?? key)}”`;
  if (user !== undefined) return `End user ${text(user)}`;
  return `Model ${text(model)}`;
}

import { alertLine as lineOf, type ReadAlert } from '#db/alerts/alert-line.ts';
import type { AlertKind } from '#db/alerts/alerts.ts';
import type { DestinationKind } from '#db/alerts/destination-kinds.ts';
import type { DeliveryRow } from '#server/contract/alerts.ts';
import { showCost, showCount, showDuration, showTime, type Zone } from '../../lib/format/show.ts';

/** Texts for alerts and their deliveries. Pure. */

/** Each kind of alert with its description. */
export const ALERTS: Record<AlertKind, { name: string; about: string }> = {
  quota: {
    name: 'Quota usage',
    about: 'A quota reaches 50, 80 or 100%; of an end user, session or tag 80 or 100%.',
  },
  budget_forecast: {
    name: 'Projected over budget',
    about: 'A quota is projected to be exceeded before its reset; once for each window.',
  },
  usage_anomaly: {
    name: 'Unusual usage',
    about: 'A key, end user or model uses far more in an hour than its own history; once a day.',
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
  background_lost: {
    name: 'Lost background responses',
    about: 'The usage of a background response was not reported; its whole reservation is charged.',
  },
  batch_lost: {
    name: 'Lost batches',
    about: 'The output of a batch is missing; the reservations of its lines without output are charged.',
  },
  statement_email_failed: {
    name: 'Unsent statements',
    about: 'A statement could not be sent by email within a day, or its recipient was rejected.',
  },
  projector_behind: {
    name: 'Delayed figures',
    about: 'Lists and figures are more than a minute old, and when they have caught up.',
  },
  sink_failing: {
    name: 'Failing sinks',
    about:
      'Five deliveries to a sink failed in a row, or its oldest undelivered event is five minutes old, ' +
      'and when it recovers.',
  },
  job_failing: {
    name: 'Failing jobs',
    about: 'A background job failed twice in a row or for five minutes, and when it recovers.',
  },
};
export const KINDS = Object.keys(ALERTS) as AlertKind[];

/** The alert in one sentence, in the reader's locale. */
export const alertLine = (alert: ReadAlert, zone: Zone): string =>
  lineOf(alert, {
    count: showCount,
    cost: showCost,
    duration: showDuration,
    time: (at) => showTime(at, zone, 'day'),
  });

/** Each kind of destination with its name and its address. */
export const DESTINATIONS: Record<
  DestinationKind,
  { name: string; address: string; placeholder: string; hint: string }
> = {
  webhook: {
    name: 'Webhook',
    address: 'Endpoint URL',
    placeholder: 'https://alerts.example.com/daybook',
    hint: 'Receives a signed POST for each alert. Stored encrypted; only the host is shown later.',
  },
  slack: {
    name: 'Slack',
    address: 'Incoming webhook URL',
    placeholder: 'https://hooks.slack.com/services/…',
    hint: 'From the Slack app’s Incoming Webhooks. Stored encrypted; only the host is shown later.',
  },
  teams: {
    name: 'Microsoft Teams',
    address: 'Workflow URL',
    placeholder: 'https://….logic.azure.com/workflows/…',
    hint:
      'From the workflow “Post to a channel when a webhook request is received”. ' +
      'Stored encrypted; only the host is shown later.',
  },
  email: {
    name: 'Email',
    address: 'Email address',
    placeholder: 'alerts@example.com',
    hint: 'Sent by the mail server of SMTP_URL.',
  },
};

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

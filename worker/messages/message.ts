import { type AlertFormat, alertLine, type ReadAlert } from '#db/alerts/alert-line.ts';
import { alertPath } from '#db/alerts/alert-path.ts';

/** An alert to be sent, as its table has it. */
export type SentAlert = ReadAlert & {
  account: string | null;
  /** ISO 8601. */
  raised_at: string;
};

/** An alert as a person reads it in a message; each kind of destination renders it in its own form. Pure. */
export type AlertMessage = {
  title: string;
  line: string;
  facts: readonly (readonly [name: string, value: string])[];
  /** The page that shows the calls; null where the worker doesn't know the dashboard's address. */
  url: string | null;
};

/** Longer texts are cut: forms have limits of their own, 150 characters for a header in Slack. */
const TEXT_CHARACTERS_MAX = 500;
const TITLE_CHARACTERS_MAX = 120;

const TITLES: Record<ReadAlert['kind'], string> = {
  quota: 'Quota usage',
  overdraft: 'Hard limit exceeded',
  budget_forecast: 'Projected over budget',
  usage_anomaly: 'Unusual usage',
  key_expiring: 'Key expires soon',
  upstream_failing: 'Upstream failing',
  implausible_usage: 'Implausible usage',
  background_lost: 'Background response lost',
  batch_lost: 'Batch lost',
  statement_email_failed: 'Statement not sent',
  projector_behind: 'Figures delayed',
  job_failing: 'Background job failing',
  sink_failing: 'Sink failing',
  test: 'Test alert',
};

/** @param publicUrl the origin of the dashboard; links need it. */
export function messageOf(alert: SentAlert, publicUrl: string | null): AlertMessage {
  const { kind, state, account, details, raised_at: at } = alert;
  const name = details['account_name'] ?? account;
  const whose = typeof name === 'string' ? name : null;
  const title = `${state === 'recovered' ? 'Resolved: ' : ''}${TITLES[kind]}`;
  return {
    title: cut(whose === null ? title : `${title}: ${whose}`, TITLE_CHARACTERS_MAX),
    line: cut(alertLine(alert, FORMAT), TEXT_CHARACTERS_MAX),
    facts: [
      ...(whose === null ? [] : [['Account', cut(whose, TITLE_CHARACTERS_MAX)] as const]),
      ['Time', FORMAT.time(at)] as const,
    ],
    url: publicUrl === null ? null : `${publicUrl}${alertPath(alert)}`,
  };
}

/** On one line: names may have control characters, and a title becomes a header of an email. */
function cut(text: string, max: number): string {
  const line = text.replaceAll(/\p{Cc}+/gu, ' ');
  return line.length <= max ? line : `${line.slice(0, max - 1)}…`;
}

const COUNT = new Intl.NumberFormat('en-US');
const CENTS = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' });
/** Amounts below a cent, to as many digits as say something. */
const FRACTIONS = new Intl.NumberFormat('en-US', {
  style: 'currency',
  currency: 'USD',
  maximumSignificantDigits: 3,
});
const CENT_NANOUSD = 10_000_000;

/** The readers of a message are several, so that it has one locale and one time zone. */
const FORMAT: AlertFormat = {
  count: (value) => COUNT.format(value),
  cost: (nanousd) =>
    (nanousd !== 0 && Math.abs(nanousd) < CENT_NANOUSD ? FRACTIONS : CENTS).format(nanousd / 1e9),
  duration: (ms) => `${COUNT.format(Math.round(ms / 1_000))} s`,
  time: (at) => `${at.slice(0, 10)} ${at.slice(11, 16)} UTC`,
};

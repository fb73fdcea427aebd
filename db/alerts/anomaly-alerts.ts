import type { Alert } from '#db/alerts/alerts.ts';
import { ANOMALY_METERS, type AnomalyMeter, judgeHour } from '#db/forecast/anomaly.ts';
import type { History } from '#db/forecast/read-history.ts';

/** Alerts of keys, end users and models whose usage of an hour leaves their own history. Pure. */

/** The kinds of subjects that are watched, the most specific first. */
export const WATCHED_KINDS = ['end_user', 'key', 'model'] as const;
type WatchedKind = (typeof WATCHED_KINDS)[number];

/** Alerts a day (UTC) about an account. One more says that there are others. */
export const ANOMALIES_MAX = 10;
/** An alert that covers this share of a wider one's usage explains it. */
const EXPLAINED_SHARE = 0.8;

/** The usage of a subject in an hour. */
export type HourFigures = {
  /** As in `projection.usage_history`. */
  subject: string;
  account: string;
  account_name: string | null;
  key_name: string | null;
  hour: Date;
} & Record<AnomalyMeter, number>;

const HOUR_MS = 3_600_000;
const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

/** Of each subject one a day (UTC). */
const topicOf = ({ subject, hour }: HourFigures): string => `usage_anomaly/${dayOf(hour)}/${subject}`;

/**
 * The alert of an hour that is unusual by its cost or else its tokens.
 * @param history of the hours before it.
 */
export function anomalyAlert(figures: HourFigures, history: History): Alert | null {
  for (const meter of ANOMALY_METERS) {
    const found = judgeHour(meter, figures[meter], history[meter]);
    if (found !== null)
      return alertOf(figures, figures.account, { meter, used: figures[meter], usual: found.usual });
  }
  return null;
}

function alertOf(figures: HourFigures, account: string, details: Alert['details']): Alert {
  const { account_name, hour } = figures;
  return {
    topic: topicOf(figures),
    ordinal: 1,
    kind: 'usage_anomaly',
    state: 'raised',
    account,
    details: {
      account_name,
      ...subjectDetails(figures),
      ...details,
      hour_starts_at: hour.toISOString(),
      hour_ends_at: new Date(hour.getTime() + HOUR_MS).toISOString(),
    },
  };
}

/** The fields that filters of alerts and of calls have. */
function subjectDetails({ subject, key_name }: HourFigures): Alert['details'] {
  const kind = kindOf(subject);
  switch (kind) {
    case 'key':
      return { key: subject.slice('key/'.length), key_name };
    case 'end_user':
    case 'model':
      // The account is in between; a model's name may have slashes of its own.
      return { [kind]: subject.split('/').slice(2).join('/') };
  }
}

const kindOf = (subject: string): WatchedKind => subject.split('/', 1)[0] as WatchedKind;

/**
 * Leaves out the alerts that a more specific one of the same account, hour and meter explains: a jump of one
 * end user is also one of its key and of its model.
 */
export function mostSpecific(alerts: readonly Alert[]): Alert[] {
  return alerts.filter((alert) => !alerts.some((other) => explains(other, alert)));
}

const rankOf = ({ details }: Alert): number => WATCHED_KINDS.findIndex((kind) => kind in details);

function explains(part: Alert, whole: Alert): boolean {
  const [used, all] = [Number(part.details['used']), Number(whole.details['used'])];
  return (
    rankOf(part) < rankOf(whole) &&
    part.account === whole.account &&
    part.details['meter'] === whole.details['meter'] &&
    part.details['hour_starts_at'] === whole.details['hour_starts_at'] &&
    used <= all &&
    used >= EXPLAINED_SHARE * all
  );
}

/**
 * The alerts to raise: of each account the first ten of a day, and one that says that there are more.
 * @param counts by account the alerts that were raised today.
 */
export function boundAnomalies(
  due: readonly Alert[],
  counts: ReadonlyMap<string, number>,
  now: Date,
): Alert[] {
  const today = new Map(counts);
  return due.flatMap((alert) => {
    const account = alert.account ?? '';
    const count = today.get(account) ?? 0;
    today.set(account, count + 1);
    if (count < ANOMALIES_MAX) return [alert];
    return count === ANOMALIES_MAX ? [othersAlert(alert, account, now)] : [];
  });
}

const othersAlert = (alert: Alert, account: string, now: Date): Alert => ({
  ...alert,
  topic: `usage_anomaly/others/${account}/${dayOf(now)}`,
  details: { account_name: alert.details['account_name'] ?? null, others_than: ANOMALIES_MAX },
});

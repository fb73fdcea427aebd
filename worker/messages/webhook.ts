import { alertPath } from '#db/alerts/alert-path.ts';
import type { SentAlert } from './message.ts';

/**
 * The body of a signed webhook. Pure.
 * @param publicUrl the origin of the dashboard; null: `url` is missing.
 */
export function webhookBody(alert: SentAlert, publicUrl: string | null): string {
  const { kind, state, account, details, raised_at } = alert;
  return JSON.stringify({
    type: `${kind}.${state}`,
    timestamp: raised_at,
    data: { account, ...details, ...(publicUrl === null ? {} : { url: `${publicUrl}${alertPath(alert)}` }) },
  });
}

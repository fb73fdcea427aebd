/** When statements are sent by email, and when a failed attempt is repeated. Pure. */

/** After the start of the day, so that the last calls of the month are recorded and projected. */
const SEND_AFTER_MINUTES = 10;

/** A UTC month: its first moment, and that of the next one. */
export type Month = { from: Date; to: Date };

/**
 * The newest month whose statements are due.
 * @param day of the next month on which they are.
 */
export function newestDueMonth(now: Date, day: number): Month {
  const [year, month] = [now.getUTCFullYear(), now.getUTCMonth()];
  const due = new Date(Date.UTC(year, month, day, 0, SEND_AFTER_MINUTES));
  const last = now >= due ? month : month - 1;
  return { from: new Date(Date.UTC(year, last - 1, 1)), to: new Date(Date.UTC(year, last, 1)) };
}

/** The month as commands name it, such as `2027-01`. */
export const monthText = ({ from }: Pick<Month, 'from'>): string => from.toISOString().slice(0, 7);

/** The month of a text of {@link monthText}. */
export function monthOf(text: string): Month {
  const from = new Date(text);
  return { from, to: new Date(Date.UTC(from.getUTCFullYear(), from.getUTCMonth() + 1, 1)) };
}

/** The pause after each failed attempt, 24 hours in total. After the last one the email has failed. */
const PAUSES_S = [60, 300, 1_800, 3_600, 7_200, 14_400, 21_600, 36_000] as const;

/** How an attempt ended: the mail server's status, or why it is missing. */
export type EmailResult = { status: number } | { fault: string };

/**
 * What follows a failed attempt.
 * @param attempts including this one.
 * @returns the seconds until the next one; null: none.
 */
export function pauseAfter(attempts: number, result: EmailResult): number | null {
  if ('status' in result && isPermanent(result.status)) return null;
  return PAUSES_S[attempts - 1] ?? null;
}

/** A mail server's rejection of the email itself (RFC 5321), not of the sign-in to it (RFC 4954). */
const isPermanent = (status: number): boolean =>
  status >= 500 && status < 600 && !(status >= 530 && status < 540);

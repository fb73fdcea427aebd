import type { StatementSearch } from '../../lib/search/statements.ts';

/** The period of a statement, in UTC. Pure. */

const MONTHS_SHOWN = 24;
const DAY_MS = 86_400_000;

/** The newest months, such as `2027-01`, beginning with the current one. */
export function newestMonths(nowMs: number): string[] {
  const now = new Date(nowMs);
  return Array.from({ length: MONTHS_SHOWN }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7),
  );
}

/** The month's name, such as `January 2027`. */
export const monthName = (month: string): string =>
  new Intl.DateTimeFormat(navigator.language, { month: 'long', year: 'numeric', timeZone: 'UTC' }).format(
    new Date(`${month}-01T00:00:00Z`),
  );

/** The parameters of the API; null: dates are missing. */
export function periodOf(
  { period, from, to }: StatementSearch,
  nowMs: number,
): { period: string } | { from: string; to: string } | null {
  if (period !== 'custom') return { period: period ?? (newestMonths(nowMs)[0] as string) };
  const last = Date.parse(`${to ?? ''}T00:00:00Z`);
  if (from === undefined || Number.isNaN(Date.parse(`${from}T00:00:00Z`)) || Number.isNaN(last)) return null;
  return { from, to: new Date(last + DAY_MS).toISOString().slice(0, 10) };
}

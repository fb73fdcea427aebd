import { showCost, showTime } from '../../lib/format/show.ts';

/** An amount with its sign, which is that of "bill minus log". */
export const showSigned = (nanousd: bigint): string => `${nanousd > 0n ? '+' : ''}${showCost(nanousd)}`;

const DAY_MS = 86_400_000;

/** An interval by its first and last day in UTC, such as "Oct 1, 2026 – Oct 31, 2026". */
export function showInterval(from: string, to: string): string {
  const last = Math.max(Date.parse(from), Date.parse(to) - 1);
  const first = showTime(from, 'utc', 'date');
  return Date.parse(to) - Date.parse(from) <= DAY_MS ? first : `${first} – ${showTime(last, 'utc', 'date')}`;
}

/** A model, credential or tier that may be absent. */
export const orNone = (name: string | null): string => name ?? '–';

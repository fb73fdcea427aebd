import type { ForecastRow, LimitRow } from '#server/contract/limits.ts';
import { showAmount } from './limits.ts';
import { showShort, showTime, type Zone } from './show.ts';

/** Forecasts of limits in words. Pure. */

const DAY_MS = 86_400_000;

/** A time within the next day by the clock, a later one by its date. */
export const showAhead = (at: number, nowMs: number, zone: Zone): string =>
  at - nowMs < DAY_MS ? `at ${showTime(at, zone, 'minute')}` : `on ${showTime(at, zone, 'month')}`;

/**
 * A forecast in one sentence. It begins with the run rate, or within the first day of a window, whose rate is
 * of a day that isn't over, with the usage so far.
 * @returns null where the history is too short for a projection.
 */
export function forecastLine(
  { meter, window, used, resets_at: resetsAt }: Pick<LimitRow, 'meter' | 'window' | 'used' | 'resets_at'>,
  { run_rate: rate, projection }: Pick<ForecastRow, 'run_rate' | 'projection'>,
  nowMs: number,
  zone: Zone,
): { text: string; isOver: boolean } | null {
  if (projection === null || resetsAt === null) return null;
  const { projected, low, high, exhausted_at: exhaustedAt } = projection;
  const amount = (value: number): string => showAmount(meter, value, showShort);
  const endMs = Date.parse(resetsAt);
  // Windows are days of the UTC calendar, in any zone of the reader.
  const end = window === 'day' ? 'the reset' : showTime(endMs - 1, 'utc', 'month');
  // The rate is the usage divided by the days that have passed.
  const isFirstDay = window === 'day' || rate > used;
  const pace = isFirstDay ? `${amount(used)} so far` : `${amount(rate)} a day so far`;
  const isOver = exhaustedAt !== null;
  const reached = isOver ? `, limit reached ${showAhead(Date.parse(exhaustedAt), nowMs, zone)}` : '';
  return {
    text:
      `${pace}, ${amount(projected)} projected by ${end} ` +
      `(80% range ${amount(low)} to ${amount(high)})${reached}.`,
    isOver,
  };
}

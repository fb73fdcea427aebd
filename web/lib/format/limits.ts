import { METERS } from '#db/limits/meters.ts';
import type { LimitRow } from '#server/contract/limits.ts';
import { capitalized, showCost } from './show.ts';

/** Display names of limits. Pure. */

const WINDOWS: Record<Exclude<LimitRow['window'], 'none' | 'minute'>, string> = {
  hour: 'Hourly',
  day: 'Daily',
  week: 'Weekly',
  month: 'Monthly',
};

/** The name of a limit: "Daily tokens", "Requests per minute", "Concurrent requests". */
export function limitTitle({ meter, window }: Pick<LimitRow, 'meter' | 'window'>): string {
  const { name, charged } = METERS[meter];
  if (charged !== 'while_running' && window !== 'none' && window !== 'minute')
    return `${WINDOWS[window]} ${name}`;
  return `${capitalized(name)}${window === 'minute' ? ' per minute' : ''}`;
}

/** An amount of a limit's meter. @param show formats everything but money. */
export const showAmount = (
  meter: LimitRow['meter'],
  amount: number,
  show: (amount: number) => string,
): string => (METERS[meter].format === 'nanousd' ? showCost(amount) : show(amount));

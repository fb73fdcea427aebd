import type { Quota } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { PER } from '#db/limits/subjects.ts';
import type { LimitRow } from '#server/contract/limits.ts';
import { capitalized, showCost } from './show.ts';

/** Display names of limits. Pure. */

const WINDOWS: Record<Exclude<LimitRow['window'], 'none' | 'minute'>, string> = {
  hour: 'Hourly',
  day: 'Daily',
  week: 'Weekly',
  month: 'Monthly',
  lifetime: 'Lifetime',
};

/** Whether a limit is an account's prepaid balance: only that is a lifetime of an account. */
export const isBalance = ({ meter, window }: Pick<LimitRow, 'meter' | 'window'>): boolean =>
  meter === 'cost_nanousd' && window === 'lifetime';

/** The name of a limit: "Daily tokens", "Requests per minute", "Concurrent requests". */
export function limitTitle({ meter, window }: Pick<LimitRow, 'meter' | 'window'>): string {
  const { name, charged } = METERS[meter];
  if (charged !== 'while_running' && window !== 'none' && window !== 'minute')
    return `${WINDOWS[window]} ${name}`;
  return `${capitalized(name)}${window === 'minute' ? ' per minute' : ''}`;
}

/** The name of a quota of terms: "Monthly cost for each end user". */
export const quotaTitle = (quota: Pick<Quota, 'meter' | 'window' | 'per'>): string =>
  `${limitTitle(quota)}${quota.per === undefined ? '' : ` for each ${PER[quota.per].names[0]}`}`;

/** An amount of a limit's meter. @param show formats everything but money. */
export const showAmount = (
  meter: LimitRow['meter'],
  amount: number,
  show: (amount: number) => string,
): string => (METERS[meter].format === 'nanousd' ? showCost(amount) : show(amount));

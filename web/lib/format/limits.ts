import type { Quota } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { PER } from '#db/limits/subjects.ts';
import { limitTitle } from '#db/limits/titles.ts';
import type { LimitRow } from '#server/contract/limits.ts';
import { showCost } from './show.ts';

/** Display names of limits. Pure. */

/** Whether a limit is an account's prepaid balance: only that is a lifetime of an account. */
export const isBalance = ({ meter, window }: Pick<LimitRow, 'meter' | 'window'>): boolean =>
  meter === 'cost_nanousd' && window === 'lifetime';

/** The name of a quota of terms: "Monthly cost for each end user". */
export const quotaTitle = (quota: Pick<Quota, 'meter' | 'window' | 'per'>): string =>
  `${limitTitle(quota)}${quota.per === undefined ? '' : ` for each ${PER[quota.per].names[0]}`}`;

/** An amount of a limit's meter. @param show formats everything but money. */
export const showAmount = (
  meter: LimitRow['meter'],
  amount: number,
  show: (amount: number) => string,
): string => (METERS[meter].format === 'nanousd' ? showCost(amount) : show(amount));

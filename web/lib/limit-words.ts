import { METERS } from '#db/limits/meters.ts';
import type { LimitRow } from '#server/contract/limits.ts';
import { showCost } from './show.ts';

/** What limits count and for how long, in words. Pure. */

/** Each time a window begins: "a day". */
export const WINDOW_WORDS: Record<LimitRow['window'], string> = {
  none: '',
  minute: 'a minute',
  hour: 'an hour',
  day: 'a day',
  week: 'a week',
  month: 'a month',
};

/** What is limited, in a few words: "tokens a day". */
export const limitName = ({ meter, window }: Pick<LimitRow, 'meter' | 'window'>): string =>
  meter === 'concurrent' ? 'requests at the same time' : `${METERS[meter].name} ${WINDOW_WORDS[window]}`;

/** The same at the beginning of a line: "Tokens a day". */
export function limitTitle(limit: Pick<LimitRow, 'meter' | 'window'>): string {
  const name = limitName(limit);
  return name.charAt(0).toUpperCase() + name.slice(1);
}

/** An amount of what a limit counts. @param show for all but money. */
export const showAmount = (
  meter: LimitRow['meter'],
  amount: number,
  show: (amount: number) => string,
): string => (METERS[meter].format === 'microusd' ? showCost(amount) : show(amount));

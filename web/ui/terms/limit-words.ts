import type { Quota, RateField } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { showAmount } from '../../lib/format/limits.ts';
import { showShort } from '../../lib/format/show.ts';

/** Words of single limits, which summaries and labels share. Pure. */

/** An amount with its unit: "1.2M tokens", "$5.00". */
export const showLimit = ({ meter, limit }: Quota): string =>
  showAmount(meter, limit, (amount) => `${showShort(amount)} ${METERS[meter].units[amount === 1 ? 0 : 1]}`);

/** What stands behind a limit that isn't soft. */
export const ENFORCEMENT_NOTES: Record<Quota['enforcement'], readonly string[]> = {
  soft: [],
  hard: ['(hard limit)'],
  observe: ['(observed)'],
};

/** The note after a rate limit that is observed. */
export const noted = (field: RateField, observed: readonly RateField[]): string =>
  observed.includes(field) ? ` ${ENFORCEMENT_NOTES.observe.join(' ')}` : '';

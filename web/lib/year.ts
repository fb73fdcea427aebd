import type { Zone } from './show.ts';

const yearOf = (time: string | number, zone: Zone): number =>
  zone === 'utc' ? new Date(time).getUTCFullYear() : new Date(time).getFullYear();

/**
 * Whether a moment is of another year than now, by the browser's clock: then day and month do not tell which
 * is meant.
 */
export const isOtherYear = (time: string | number, zone: Zone): boolean =>
  yearOf(time, zone) !== yearOf(Date.now(), zone);

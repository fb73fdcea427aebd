import type { Zone } from './show.ts';

const yearOf = (time: string | number, zone: Zone): number =>
  zone === 'utc' ? new Date(time).getUTCFullYear() : new Date(time).getFullYear();

/** Whether a time is in another year than the current one, so that the year must be shown. */
export const isOtherYear = (time: string | number, zone: Zone): boolean =>
  yearOf(time, zone) !== yearOf(Date.now(), zone);

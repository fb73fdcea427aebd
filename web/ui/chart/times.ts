import type { Zone } from '../../lib/show.ts';
import { showTime } from '../../lib/show.ts';
import { isOtherYear } from '../../lib/year.ts';

/**
 * How a bucket of time is called: beneath a chart, and in full. Days are those of UTC, as the figures are
 * kept.
 */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const short = (atMs: number, zone: Zone): string => showTime(atMs, zone, 'date').replace(/ \d{4}$/, '');

/** Where the whole is longer, hours are not enough. */
const HOURS_TELL_MS = 2 * DAY_MS;

/** @param wholeMs how long all buckets are together. */
export function bucketLabel(atMs: number, bucketMs: number, zone: Zone, wholeMs: number): string {
  if (bucketMs >= DAY_MS) return short(atMs, 'utc');
  return wholeMs > HOURS_TELL_MS ? short(atMs, zone) : showTime(atMs, zone, 'minute');
}

/** With the year where it is not this one. */
export function bucketTitle(atMs: number, bucketMs: number, zone: Zone): string {
  const isDay = bucketMs >= DAY_MS;
  const zoneOfDay = isDay ? 'utc' : zone;
  const date = isOtherYear(atMs, zoneOfDay) ? showTime(atMs, zoneOfDay, 'date') : short(atMs, zoneOfDay);
  return isDay
    ? `${date} (UTC)`
    : `${date}, ${showTime(atMs, zone, 'minute')}–${showTime(atMs + bucketMs, zone, 'minute')}`;
}

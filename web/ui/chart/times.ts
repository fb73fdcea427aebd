import { isOtherYear, showTime, type Zone } from '../../lib/format/show.ts';

/** Labels of time buckets. Days are UTC days, as in the figures. */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const short = (atMs: number, zone: Zone): string => showTime(atMs, zone, 'month');

/** Longer ranges are labelled with dates. */
const HOUR_LABELS_MAX_MS = 2 * DAY_MS;

/** @param wholeMs the length of all buckets together. */
export function bucketLabel(atMs: number, bucketMs: number, zone: Zone, wholeMs: number): string {
  if (bucketMs >= DAY_MS) return short(atMs, 'utc');
  return wholeMs > HOUR_LABELS_MAX_MS ? short(atMs, zone) : showTime(atMs, zone, 'minute');
}

/** The full label, with the year unless it is the current one. */
export function bucketTitle(atMs: number, bucketMs: number, zone: Zone): string {
  const isDay = bucketMs >= DAY_MS;
  const zoneOfDay = isDay ? 'utc' : zone;
  const date = isOtherYear(atMs, zoneOfDay) ? showTime(atMs, zoneOfDay, 'date') : short(atMs, zoneOfDay);
  return isDay
    ? `${date} (UTC)`
    : `${date}, ${showTime(atMs, zone, 'minute')}–${showTime(atMs + bucketMs, zone, 'minute')}`;
}

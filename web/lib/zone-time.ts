import type { Zone } from './show.ts';

/**
 * Moments as `<input type="datetime-local">` writes them, which knows no zone: they are meant in the
 * zone that was chosen. An hour that a clock change repeats is its first one; one that it leaves out
 * is the hour after. Pure but for the browser's zone.
 */

/** @returns such as 2026-05-04T10:30:00, in that zone. */
export function inputTimeOf(time: string | number, zone: Zone): string {
  const at = new Date(time);
  if (zone === 'utc') return at.toISOString().slice(0, 19);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

/** @returns ISO 8601 in UTC; null where the field is empty or holds no time. */
export function timeOfInput(text: string, zone: Zone): string | null {
  // Without a zone it is read as local time.
  const at = new Date(zone === 'utc' ? `${text}Z` : text);
  return text === '' || Number.isNaN(at.getTime()) ? null : at.toISOString();
}

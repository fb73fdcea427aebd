import type { Zone } from './show.ts';

/**
 * Values of `<input type="datetime-local">`, which has no zone, in the selected zone. For a repeated hour of
 * a clock change the first one is used, for a skipped hour the next one.
 */

/** @returns for example 2026-05-04T10:30:00. */
export function inputTimeOf(time: string | number, zone: Zone): string {
  const at = new Date(time);
  if (zone === 'utc') return at.toISOString().slice(0, 19);
  const two = (value: number): string => String(value).padStart(2, '0');
  const date = [at.getFullYear(), two(at.getMonth() + 1), two(at.getDate())].join('-');
  return `${date}T${[at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(':')}`;
}

/** @returns ISO 8601 in UTC, or null for an empty or invalid value. */
export function timeOfInput(text: string, zone: Zone): string | null {
  // Without a zone it is parsed as local time.
  const at = new Date(zone === 'utc' ? `${text}Z` : text);
  return text === '' || Number.isNaN(at.getTime()) ? null : at.toISOString();
}

/**
 * How figures and times are written, everywhere the same. Pure. English, whatever the browser's language: so
 * is the page.
 */

/** Times as this browser's clock shows them, or in UTC. */
export type Zone = 'local' | 'utc';

// Figures are written without Intl, whose formats take a slow phone a tenth of a second to make.
const grouped = (digits: string): string => digits.replace(/\B(?=(\d{3})+$)/g, ',');
const SHORT_UNITS = [
  ['T', 1e12],
  ['B', 1e9],
  ['M', 1e6],
  ['K', 1e3],
] as const;

/** 1,234,567 */
export function showCount(value: number): string {
  const [whole = '', fraction] = Math.abs(Number.isInteger(value) ? value : Math.round(value * 1_000) / 1_000)
    .toString()
    .split('.');
  return `${value < 0 ? '-' : ''}${grouped(whole)}${fraction === undefined ? '' : `.${fraction}`}`;
}
/** 1 event, 1,234 events. @param one a word that takes an s. */
export const showCounted = (value: number, one: string): string =>
  `${showCount(value)} ${one}${value === 1 ? '' : 's'}`;
/** 1.2M; whole up to 9,999. */
export function showShort(value: number): string {
  if (Math.abs(value) < 10_000) return showCount(Math.round(value));
  // 999,950 is 1M, and not 1,000K.
  const [unit, size] =
    SHORT_UNITS.find(([, each]) => Math.round(Math.abs(value) / (each / 10_000)) >= 10_000) ?? SHORT_UNITS[3];
  return `${showCount(Math.round(value / (size / 10)) / 10)}${unit}`;
}

/** Micro-dollars as dollars, with as many digits as tell something: $12.30, $0.0042, $0.000001. */
export function showCost(microusd: number): string {
  const dollars = microusd / 1_000_000;
  if (microusd === 0) return '$0';
  const digits = Math.abs(dollars) >= 1 ? 2 : Math.abs(dollars) >= 0.01 ? 4 : 6;
  const [whole = '', fraction = ''] = Math.abs(dollars).toFixed(digits).split('.');
  return `${dollars < 0 ? '-' : ''}$${grouped(whole)}.${fraction.replace(/(?<=\d\d)0+$/, '')}`;
}

/** 850 ms, 1.2 s, 3 min 4 s, 2 h 5 min, 3 d 4 h. */
export function showDuration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const s = ms / 1_000;
  if (s < 10) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const parts = (large: number, largeUnit: string, small: number, smallUnit: string): string =>
    small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
  const total = Math.round(s);
  if (total < 3_600) return parts(Math.floor(total / 60), 'min', total % 60, 's');
  if (total < 86_400) return parts(Math.floor(total / 3_600), 'h', Math.floor((total % 3_600) / 60), 'min');
  return parts(Math.floor(total / 86_400), 'd', Math.floor((total % 86_400) / 3_600), 'h');
}

/** How long something goes on so far, in whole seconds: 0 s, 9 s, 3 min 4 s. */
export const showSeconds = (ms: number): string =>
  ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1_000))} s` : showDuration(ms);

/** 99.5 % */
export const showPercent = (share: number): string =>
  `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

type Form = 'time' | 'minute' | 'day' | 'date' | 'full';
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sept', 'Oct', 'Nov', 'Dec'];
const two = (value: number): string => String(value).padStart(2, '0');

/** A moment in the zone that was chosen. */
export function showTime(time: string | number | Date, zone: Zone, form: Form = 'full'): string {
  const at = new Date(time);
  // A Date has its parts in UTC, so they are taken of one that is as much later as this clock is ahead.
  const aheadMin = zone === 'utc' ? 0 : -at.getTimezoneOffset();
  const shown = new Date(at.getTime() + aheadMin * 60_000);
  const minute = `${two(shown.getUTCHours())}:${two(shown.getUTCMinutes())}`;
  const second = `${minute}:${two(shown.getUTCSeconds())}`;
  const day = `${shown.getUTCDate()} ${MONTHS[shown.getUTCMonth()]}`;
  switch (form) {
    case 'time':
      return second;
    case 'minute':
      return minute;
    case 'day':
      return `${day}, ${minute}`;
    case 'date':
      return `${day} ${shown.getUTCFullYear()}`;
    case 'full':
      return `${day} ${shown.getUTCFullYear()}, ${second} ${zoneName(zone, aheadMin)}`;
  }
}

/** UTC, UTC+1, UTC-3:30. */
function zoneName(zone: Zone, aheadMin: number): string {
  if (zone === 'utc' || aheadMin === 0) return 'UTC';
  const minutes = Math.abs(aheadMin);
  return `UTC${aheadMin < 0 ? '-' : '+'}${Math.floor(minutes / 60)}${minutes % 60 === 0 ? '' : `:${two(minutes % 60)}`}`;
}

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** "3 min ago", "in 2 h": for what is near; the exact time belongs into the title. */
export function showAgo(time: string | number | Date, nowMs: number): string {
  const ms = nowMs - new Date(time).getTime();
  if (Math.abs(ms) < 5_000) return 'just now';
  // The largest unit of which there is one, when rounded.
  const [unit, unitMs] = UNITS.find(([, each]) => Math.round(Math.abs(ms) / each) >= 1) ?? UNITS[3];
  const text = `${Math.round(Math.abs(ms) / unitMs)} ${unit}`;
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

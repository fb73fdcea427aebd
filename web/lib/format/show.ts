/**
 * Formats of numbers, money, durations and times. Digits, separators and dates follow the reader's locale;
 * unit symbols and words are English like the page.
 */

import { formatDollars } from '#db/money.ts';

/** Times in the browser's time zone or in UTC. */
export type Zone = 'local' | 'utc';

let locale: string | undefined = globalThis.navigator?.language;
const formats = new Map<string, Intl.NumberFormat | Intl.DateTimeFormat>();

/** Overrides the reader's locale. For tests. */
export function setLocale(name: string): void {
  locale = name;
  formats.clear();
}

/** Formats are cached, since creating one takes about a millisecond on a slow phone. */
function cached<Format extends Intl.NumberFormat | Intl.DateTimeFormat>(
  name: string,
  create: (locale: string | undefined) => Format,
): Format {
  let format = formats.get(name) as Format | undefined;
  if (!format) formats.set(name, (format = create(locale)));
  return format;
}

const number = (name: string, options: Intl.NumberFormatOptions): Intl.NumberFormat =>
  cached(`number ${name}`, (of) => new Intl.NumberFormat(of, options));

/** With a minus sign in place of the hyphen that most locales have. */
const withMinus = (text: string): string => text.replace('-', '−');

/** 1,234,567 */
export const showCount = (value: number): string => withMinus(number('count', {}).format(value));

/** 1 event, 1,234 events. @param one a word that takes an s. */
export const showCounted = (value: number, one: string): string =>
  `${showCount(value)} ${one}${value === 1 ? '' : 's'}`;

/** 12.4 @param digits after the decimal separator. */
export const showDecimal = (value: number, digits: number): string =>
  number(`decimal ${digits}`, { minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);

/** 1.2M; whole up to 9,999. */
export const showShort = (value: number): string =>
  Math.abs(value) < 10_000
    ? showCount(Math.round(value))
    : number('short', { notation: 'compact', maximumFractionDigits: 1 }).format(value);

/**
 * Nano-dollars as dollars, with as many digits as are meaningful: $12.30, $0.0042, $0.000001, $0.0000002.
 * @param nanousd a sum may come as a decimal string.
 */
export function showCost(nanousd: number | bigint | string): string {
  const size = Math.abs(Number(nanousd)) / 1e9;
  const digits = size >= 1 || size === 0 ? 2 : size >= 0.01 ? 4 : size >= 0.000_01 ? 6 : 9;
  const minimum = size === 0 ? 0 : 2;
  const options = { style: 'currency', currency: 'USD', currencyDisplay: 'narrowSymbol' } as const;
  const format = number(`cost ${digits} ${minimum}`, {
    ...options,
    minimumFractionDigits: minimum,
    maximumFractionDigits: digits,
  });
  // As text, since a number might not have all of its digits.
  return withMinus(format.format(formatDollars(BigInt(nanousd)) as Intl.StringNumericLiteral));
}

/** 850 ms, 1.2 s, 3 min 4 s, 2 h 5 min, 3 d 4 h. */
export function showDuration(ms: number): string {
  if (ms < 1_000) return `${showCount(Math.round(ms))} ms`;
  const s = ms / 1_000;
  if (s < 10) return `${showDecimal(s, 1)} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const parts = (large: number, largeUnit: string, small: number, smallUnit: string): string =>
    small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
  const total = Math.round(s);
  if (total < 3_600) return parts(Math.floor(total / 60), 'min', total % 60, 's');
  if (total < 86_400) return parts(Math.floor(total / 3_600), 'h', Math.floor((total % 3_600) / 60), 'min');
  return parts(Math.floor(total / 86_400), 'd', Math.floor((total % 86_400) / 3_600), 'h');
}

/** An elapsed time in whole seconds: 0 s, 9 s, 3 min 4 s. */
export const showSeconds = (ms: number): string =>
  ms < 10_000 ? `${Math.max(0, Math.floor(ms / 1_000))} s` : showDuration(ms);

/** 99.5% @param digits after the decimal separator; by default one for shares below 10%. */
export function showPercent(share: number, digits: number = share > 0 && share < 0.1 ? 1 : 0): string {
  const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return number(`percent ${digits}`, { style: 'percent', ...fraction }).format(share);
}

const CLOCK = { hour: '2-digit', minute: '2-digit' } as const;
const DAY = { day: 'numeric', month: 'short' } as const;
const FORMS = {
  time: { ...CLOCK, second: '2-digit' },
  minute: CLOCK,
  month: DAY,
  day: { ...DAY, ...CLOCK },
  second: { ...DAY, ...CLOCK, second: '2-digit' },
  date: { ...DAY, year: 'numeric' },
  full: { ...DAY, year: 'numeric', ...CLOCK, second: '2-digit', timeZoneName: 'short' },
} as const satisfies Record<string, Intl.DateTimeFormatOptions>;

/** A time in the selected zone. */
export function showTime(
  time: string | number | Date,
  zone: Zone,
  form: keyof typeof FORMS = 'full',
): string {
  const options = zone === 'utc' ? { ...FORMS[form], timeZone: 'UTC' } : FORMS[form];
  return cached(`time ${zone} ${form}`, (of) => new Intl.DateTimeFormat(of, options)).format(new Date(time));
}

const yearOf = (time: string | number, zone: Zone): number =>
  zone === 'utc' ? new Date(time).getUTCFullYear() : new Date(time).getFullYear();

/** Whether a time is in another year than the current one, so that the year must be shown. */
export const isOtherYear = (time: string | number, zone: Zone): boolean =>
  yearOf(time, zone) !== yearOf(Date.now(), zone);

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const;

/** "3 min ago", "in 2 h". Show the exact time as tooltip. */
export function showAgo(time: string | number | Date, nowMs: number): string {
  const ms = nowMs - new Date(time).getTime();
  if (Math.abs(ms) < 5_000) return 'just now';
  // The largest unit that rounds to at least one.
  const [unit, unitMs] = UNITS.find(([, each]) => Math.round(Math.abs(ms) / each) >= 1) ?? UNITS[3];
  const text = `${Math.round(Math.abs(ms) / unitMs)} ${unit}`;
  return ms > 0 ? `${text} ago` : `in ${text}`;
}

/** "upstream error" to "Upstream error". */
export const capitalized = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

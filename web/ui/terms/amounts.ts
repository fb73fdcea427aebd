import { formatDollars } from '#db/money.ts';

/** Parsing of typed amounts. Exact: no floating-point arithmetic. Pure. */

const DOLLAR_DIGITS = 9;
/** The number of decimal digits that each suffix shifts. */
const SCALES: Record<string, number> = { '': 0, k: 3, m: 6, b: 9 };

/** Parses "1,000,000", "250k" or "1.5m". Null if it is not a safe whole number. */
export function readAmount(text: string): number | null {
  const [, whole = '', fraction = '', scale = ''] =
    /^([\d,_ ]*\d)(?:\.(\d+?)0*)?\s*([kmb]?)$/i.exec(text.trim()) ?? [];
  return shifted(whole, fraction === '0' ? '' : fraction, SCALES[scale.toLowerCase()] ?? 0);
}

/** Parses "12.50" or "$1,000" to nano-dollars. Null if it is invalid or has more digits. */
export function readDollars(text: string): number | null {
  const [, whole = '', fraction = ''] = /^(?:\$\s*)?([\d,_ ]*\d)(?:\.(\d*))?$/.exec(text.trim()) ?? [];
  return shifted(whole, fraction, DOLLAR_DIGITS);
}

/** Formats nano-dollars as typed text: 1,000.50. */
export const writeDollars = (nanousd: number): string =>
  formatDollars(nanousd).replaceAll(/\B(?=(\d{3})+\.)/g, ',');

/** Shifts a decimal number by a number of digits. */
function shifted(whole: string, fraction: string, digits: number): number | null {
  if (whole === '' || fraction.length > digits) return null;
  const value = Number(whole.replaceAll(/[,_ ]/g, '') + fraction.padEnd(digits, '0'));
  return Number.isSafeInteger(value) ? value : null;
}

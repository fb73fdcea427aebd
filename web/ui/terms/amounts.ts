import { formatDollars } from '#db/money.ts';

/** Amounts as people write them. Exact: no binary fraction comes into it. Pure. */

const DOLLAR_DIGITS = 6;
/** How many digits of a decimal fraction each scale makes whole. */
const SCALES: Record<string, number> = { '': 0, k: 3, m: 6, b: 9 };

/** Reads "1,000,000", "250k" or "1.5m". Null where it is no whole number that can be kept. */
export function readAmount(text: string): number | null {
  const [, whole = '', fraction = '', scale = ''] =
    /^([\d,_ ]*\d)(?:\.(\d+?)0*)?\s*([kmb]?)$/i.exec(text.trim()) ?? [];
  return shifted(whole, fraction === '0' ? '' : fraction, SCALES[scale.toLowerCase()] ?? 0);
}

/** Reads "12.50" or "$1,000" as micro-dollars. Null also where it is finer than those. */
export function readDollars(text: string): number | null {
  const [, whole = '', fraction = ''] = /^(?:\$\s*)?([\d,_ ]*\d)(?:\.(\d*))?$/.exec(text.trim()) ?? [];
  return shifted(whole, fraction, DOLLAR_DIGITS);
}

/** Micro-dollars as somebody would type them: 1,000.50. */
export const writeDollars = (microusd: number): string =>
  formatDollars(microusd).replaceAll(/\B(?=(\d{3})+\.)/g, ',');

/** A decimal number made whole by moving its point so many digits. */
function shifted(whole: string, fraction: string, digits: number): number | null {
  if (whole === '' || fraction.length > digits) return null;
  const value = Number(whole.replaceAll(/[,_ ]/g, '') + fraction.padEnd(digits, '0'));
  return Number.isSafeInteger(value) ? value : null;
}

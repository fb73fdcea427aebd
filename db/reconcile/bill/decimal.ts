import { COST_DIGITS_MAX } from '#db/reconcile/bill/bounds.ts';

/** Exact arithmetic on decimal numbers as bills spell them, without binary fractions. Pure. */

const DECIMAL = /^([+-]?)(\d{1,30})(?:\.(\d{0,60}))?(?:[eE]([+-]?\d{1,3}))?$/;
const BILLION_DIGITS = 9;
const REST_DIGITS = COST_DIGITS_MAX - BILLION_DIGITS;
const REST = 10n ** BigInt(REST_DIGITS);

/**
 * Parses a decimal number such as `-12.50` or `1.5e-7`, multiplied by ten to the power of `digits`.
 * @returns null if the text is no decimal number, or the product is no integer.
 */
export function parseScaled(text: string, digits: number): bigint | null {
  const [, sign = '', whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  if (whole === '') return null;
  const coefficient = BigInt(`${sign === '-' ? '-' : ''}${whole}${fraction}`);
  const power = Number(exponent) - fraction.length + digits;
  if (power >= 0) return power > 60 && coefficient !== 0n ? null : coefficient * 10n ** BigInt(power);
  const divisor = 10n ** BigInt(-power);
  return coefficient % divisor === 0n ? coefficient / divisor : null;
}

/** A cost: billionths of the currency, and the rest beyond them in units of 10⁻³⁰. */
export type ExactCost = { billionths: bigint; rest: bigint };

/**
 * Parses an amount of money, to the nearest billionth, halves away from zero, and the exact rest.
 * @param shift the power of ten of the unit: −2 for cents.
 * @returns null if the text is no decimal number, or has more than {@link COST_DIGITS_MAX} digits.
 */
export function parseCost(text: string, shift = 0): ExactCost | null {
  const exact = parseScaled(text, COST_DIGITS_MAX + shift);
  if (exact === null) return null;
  const half = exact < 0n ? -REST / 2n : REST / 2n;
  const billionths = (exact + half) / REST;
  return { billionths, rest: exact - billionths * REST };
}

/** A sum of rests as a decimal number of the currency, without trailing zeros. */
export const formatRest = (rest: bigint): string => formatScaled(rest, COST_DIGITS_MAX);

/** Billionths as a decimal number of the currency, without trailing zeros. */
export const formatBillionths = (amount: bigint): string => formatScaled(amount, BILLION_DIGITS);

function formatScaled(value: bigint, digits: number): string {
  const magnitude = String(value < 0n ? -value : value).padStart(digits + 1, '0');
  const fraction = magnitude.slice(-digits).replace(/0+$/, '');
  const sign = value < 0n ? '-' : '';
  return `${sign}${magnitude.slice(0, -digits)}${fraction === '' ? '' : `.${fraction}`}`;
}

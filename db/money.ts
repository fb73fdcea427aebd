/** Amounts are integer nano-dollars. Pure. */

import type { UsageDetails } from '#db/events/usage-details.ts';

/** A thousand dollars for a million tokens, or for one unit: more than any known price. */
export const PRICE_MAX = 1_000_000_000_000;

const DOLLAR_DIGITS = 9;
const DOLLAR = 10 ** DOLLAR_DIGITS;

/**
 * The usage of one reply, in tokens: `cached` (read from a cache) and `cacheWrite` are parts of `input`, and
 * `reasoning` is a part of `output`. `details` has what few calls use.
 */
export type Usage = {
  input: number;
  cached: number;
  cacheWrite?: number;
  output: number;
  reasoning: number;
  details?: UsageDetails;
};

/**
 * Parses a price in US dollars, such as `2.50`, to integer nano-dollars. Exact: without
 * binary fractions.
 * @returns null if the text is no such number, is finer than a nano-dollar, or above {@link PRICE_MAX}.
 */
export function parseDollars(text: string): number | null {
  const match = /^(\d{1,4})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match) return null;
  const price = Number(match[1]) * DOLLAR + Number((match[2] ?? '').padEnd(DOLLAR_DIGITS, '0'));
  return price <= PRICE_MAX ? price : null;
}

/**
 * Parses an amount of money in US dollars, such as `25` or `1000.50`, to nano-dollars. Exact.
 * @returns null if the text is no such number, is finer than a nano-dollar, or no safe integer.
 */
export function parseAmount(text: string): number | null {
  const match = /^(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match) return null;
  const amount = Number(match[1]) * DOLLAR + Number((match[2] ?? '').padEnd(DOLLAR_DIGITS, '0'));
  return Number.isSafeInteger(amount) ? amount : null;
}

/** An amount in US dollars, with at least two fractional digits and no trailing zeros after them. */
export function formatDollars(nanousd: number | bigint): string {
  const amount = BigInt(nanousd);
  const digits = String((amount < 0n ? -amount : amount) % BigInt(DOLLAR))
    .padStart(DOLLAR_DIGITS, '0')
    .replace(/0{1,7}$/, '');
  return `${amount < 0n ? '-' : ''}${(amount < 0n ? -amount : amount) / BigInt(DOLLAR)}.${digits}`;
}

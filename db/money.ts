/** Amounts are integer nano-dollars. Prices are nano-dollars per million tokens. Pure. */

import type { UsageDetails } from '#db/events/usage-details.ts';

/** A thousand dollars per million tokens, ten times the most expensive known model. */
export const PRICE_MAX = 1_000_000_000_000;

const MILLION = 1_000_000;
const DOLLAR_DIGITS = 9;
const DOLLAR = 10 ** DOLLAR_DIGITS;

/**
 * The prices of a model. `cached_input` replaces `input` for cached tokens, `reasoning` replaces `output`.
 */
export type Prices = { input: number; cached_input: number; output: number; reasoning: number };

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
 * The cost of a usage, rounded to the nearest nano-dollar, half up, once per request. What a token costs in
 * whole nano-dollars and the rest are added up separately, so that every product is a safe integer.
 */
export function costOf({ input, cached, output, reasoning }: Usage, prices: Prices): number {
  const uncached = input - cached;
  const visible = output - reasoning;
  const whole =
    uncached * perToken(prices.input) +
    cached * perToken(prices.cached_input) +
    visible * perToken(prices.output) +
    reasoning * perToken(prices.reasoning);
  const rest =
    uncached * (prices.input % MILLION) +
    cached * (prices.cached_input % MILLION) +
    visible * (prices.output % MILLION) +
    reasoning * (prices.reasoning % MILLION);
  return whole + Math.floor((rest + MILLION / 2) / MILLION);
}

const perToken = (price: number): number => Math.floor(price / MILLION);

/**
 * The maximum cost of these tokens in nano-dollars, whichever of them are cached or reasoning. A request
 * with at most as many tokens costs at most as much.
 */
export function costBound(inputTokens: number, outputTokens: number, prices: Prices): number {
  const { input, output } = dearest(prices);
  return costOf(
    { input: inputTokens, cached: 0, output: outputTokens, reasoning: 0 },
    { input, cached_input: input, output, reasoning: output },
  );
}

/**
 * The maximum number of tokens whose cost at a price fits into an amount; `Number.MAX_SAFE_INTEGER` if they
 * are free.
 */
export function tokensFor(costNanousd: number, pricePerMillion: number): number {
  return fitting(costNanousd, 0, 0, pricePerMillion);
}

/**
 * The longest reply with which a request fits into an amount: its {@link costBound} is within, and that of
 * one more token is not. The cost of a request is rounded once, so this is not `tokensFor` the remainder
 * after the prompt. 0 also if the prompt alone costs more.
 */
export function outputTokensFor(costNanousd: number, inputTokens: number, prices: Prices): number {
  const { input, output } = dearest(prices);
  return fitting(costNanousd, inputTokens, input, output);
}

/**
 * The maximum number of tokens at `price` whose cost, with that of `before` tokens at another price, rounds
 * to at most `amount`.
 */
function fitting(amount: number, before: number, priceBefore: number, price: number): number {
  // In millionths of a nano-dollar, of which there are too many for a number.
  const slack =
    BigInt(amount) * BigInt(MILLION) + BigInt(MILLION / 2 - 1) - BigInt(before) * BigInt(priceBefore);
  if (amount < 0 || slack < 0n) return 0;
  return price === 0 ? Number.MAX_SAFE_INTEGER : Number(minOf(slack / BigInt(price), MOST));
}

const MOST = BigInt(Number.MAX_SAFE_INTEGER);
const minOf = (one: bigint, other: bigint): bigint => (one < other ? one : other);

function dearest(prices: Prices): { input: number; output: number } {
  return {
    input: Math.max(prices.input, prices.cached_input),
    output: Math.max(prices.output, prices.reasoning),
  };
}

/**
 * Parses a price in US dollars per million tokens, such as `2.50`, to integer nano-dollars. Exact: without
 * binary fractions.
 * @returns null if the text is no such number, is finer than a nano-dollar, or above {@link PRICE_MAX}.
 */
export function parseDollars(text: string): number | null {
  const match = /^(\d{1,4})(?:\.(\d{1,9}))?$/.exec(text);
  if (!match) return null;
  const price = Number(match[1]) * DOLLAR + Number((match[2] ?? '').padEnd(DOLLAR_DIGITS, '0'));
  return price <= PRICE_MAX ? price : null;
}

/** An amount in US dollars, with at least two fractional digits and no trailing zeros after them. */
export function formatDollars(nanousd: number | bigint): string {
  const amount = BigInt(nanousd);
  const digits = String((amount < 0n ? -amount : amount) % BigInt(DOLLAR))
    .padStart(DOLLAR_DIGITS, '0')
    .replace(/0{1,7}$/, '');
  return `${amount < 0n ? '-' : ''}${(amount < 0n ? -amount : amount) / BigInt(DOLLAR)}.${digits}`;
}

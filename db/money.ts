/** Amounts are integer micro-dollars. Prices are micro-dollars per million tokens. Pure. */

/** A thousand dollars per million tokens, ten times the most expensive known model. */
export const PRICE_MAX = 1_000_000_000;

const MILLION = 1_000_000;

/**
 * The prices of a model. `cached_input` replaces `input` for cached tokens, `reasoning` replaces `output`.
 */
export type Prices = { input: number; cached_input: number; output: number; reasoning: number };

/** Tokens of one reply. `cached` is a part of `input`, `reasoning` a part of `output`. */
export type Usage = { input: number; cached: number; output: number; reasoning: number };

/**
 * The cost of a usage, rounded to the nearest micro-dollar, half up, once per request. Whole millions and the
 * remainder are computed separately, so that every product is a safe integer.
 */
export function costOf({ input, cached, output, reasoning }: Usage, prices: Prices): number {
  const uncached = input - cached;
  const visible = output - reasoning;
  const whole =
    millions(uncached) * prices.input +
    millions(cached) * prices.cached_input +
    millions(visible) * prices.output +
    millions(reasoning) * prices.reasoning;
  const rest =
    (uncached % MILLION) * prices.input +
    (cached % MILLION) * prices.cached_input +
    (visible % MILLION) * prices.output +
    (reasoning % MILLION) * prices.reasoning;
  return whole + Math.floor((rest + MILLION / 2) / MILLION);
}

const millions = (tokens: number): number => Math.floor(tokens / MILLION);

/**
 * The maximum cost of these tokens in micro-dollars, whichever of them are cached or reasoning. A request
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
export function tokensFor(costMicrousd: number, pricePerMillion: number): number {
  return fitting(costMicrousd, 0, pricePerMillion);
}

/**
 * The longest reply with which a request fits into an amount: its {@link costBound} is within, and that of
 * one more token is not. The cost of a request is rounded once, so this is not `tokensFor` the remainder
 * after the prompt. 0 also if the prompt alone costs more.
 */
export function outputTokensFor(costMicrousd: number, inputTokens: number, prices: Prices): number {
  const { input, output } = dearest(prices);
  const rest = (inputTokens % MILLION) * input;
  const whole = Math.floor(inputTokens / MILLION) * input + Math.floor(rest / MILLION);
  return fitting(costMicrousd - whole, rest % MILLION, output);
}

/**
 * The maximum number of tokens whose cost, plus `before` millionths of a micro-dollar, rounds to at most
 * `amount`. The amount is divided by the price first, so that every product is a safe integer.
 */
function fitting(amount: number, before: number, price: number): number {
  const slack = MILLION / 2 - 1 - before;
  if (amount < 0) return 0;
  if (price === 0) return amount > 0 || slack >= 0 ? Number.MAX_SAFE_INTEGER : 0;
  const rest = Math.floor(((amount % price) * MILLION + slack) / price);
  return Math.max(0, Math.min(Math.floor(amount / price) * MILLION + rest, Number.MAX_SAFE_INTEGER));
}

function dearest(prices: Prices): { input: number; output: number } {
  return {
    input: Math.max(prices.input, prices.cached_input),
    output: Math.max(prices.output, prices.reasoning),
  };
}

/**
 * Parses a price in US dollars per million tokens, such as `2.50`, to integer micro-dollars. Exact: without
 * binary fractions.
 * @returns null if the text is no such number, is finer than a micro-dollar, or above {@link PRICE_MAX}.
 */
export function parseDollars(text: string): number | null {
  const match = /^(\d{1,4})(?:\.(\d{1,6}))?$/.exec(text);
  if (!match) return null;
  const price = Number(match[1]) * MILLION + Number((match[2] ?? '').padEnd(6, '0'));
  return price <= PRICE_MAX ? price : null;
}

/** A price in US dollars, with at least two fractional digits and no trailing zeros after them. */
export function formatDollars(price: number): string {
  const digits = String(price % MILLION)
    .padStart(6, '0')
    .replace(/0{1,4}$/, '');
  return `${Math.floor(price / MILLION)}.${digits}`;
}

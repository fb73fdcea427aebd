/** Money is whole micro-dollars. A price is micro-dollars for a million tokens. Pure. */

/** A thousand dollars for a million tokens, ten times the dearest model known. */
export const PRICE_MAX = 1_000_000_000;

const MILLION = 1_000_000;

/**
 * What a model costs. `cached_input` stands in place of `input` for cached tokens, `reasoning` of `output`.
 */
export type Prices = { input: number; cached_input: number; output: number; reasoning: number };

/** Tokens of one reply. `cached` is a part of `input`, `reasoning` a part of `output`. */
export type Usage = { input: number; cached: number; output: number; reasoning: number };

/**
 * What a usage costs, rounded to the nearest micro-dollar, half up, once for the whole call. Whole
 * millions and the rest are reckoned apart, so that no product leaves the safe integers.
 */
export function costOf({ input, cached, output, reasoning }: Usage, prices: Prices): number {
  const parts: readonly [number, number][] = [
    [input - cached, prices.input],
    [cached, prices.cached_input],
    [output - reasoning, prices.output],
    [reasoning, prices.reasoning],
  ];
  let whole = 0;
  let rest = 0;
  for (const [tokens, price] of parts) {
    whole += Math.floor(tokens / MILLION) * price;
    rest += (tokens % MILLION) * price;
  }
  return whole + Math.floor((rest + MILLION / 2) / MILLION);
}

/**
 * The most that so many tokens can cost, whichever of them turn out to be cached or reasoning, in
 * micro-dollars. A call that spends no more tokens costs no more.
 */
export function costBound(inputTokens: number, outputTokens: number, prices: Prices): number {
  const { input, output } = dearest(prices);
  return costOf(
    { input: inputTokens, cached: 0, output: outputTokens, reasoning: 0 },
    { input, cached_input: input, output, reasoning: output },
  );
}

/**
 * The most tokens whose cost at a price fits into an amount; `Number.MAX_SAFE_INTEGER` where they
 * cost nothing.
 */
export function tokensFor(costMicrousd: number, pricePerMillion: number): number {
  return fitting(costMicrousd, 0, pricePerMillion);
}

/**
 * The longest reply with which a call fits into an amount: {@link costBound} of it is within, and of
 * one token more is not. A call is rounded once, so this is not `tokensFor` of what its prompt
 * leaves. 0 also where the prompt alone costs more.
 */
export function outputTokensFor(costMicrousd: number, inputTokens: number, prices: Prices): number {
  const { input, output } = dearest(prices);
  const rest = (inputTokens % MILLION) * input;
  const whole = Math.floor(inputTokens / MILLION) * input + Math.floor(rest / MILLION);
  return fitting(costMicrousd - whole, rest % MILLION, output);
}

/**
 * The most tokens whose cost, with `before` millionths of a micro-dollar spent already, is rounded
 * to at most `amount`. The amount is taken apart by the price, so that no product leaves the safe
 * integers.
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
 * Reads a price in US dollars for a million tokens, such as `2.50`, as whole micro-dollars. Exact:
 * no binary fraction comes into it.
 * @returns null when it is no such number, is finer than a micro-dollar, or above {@link PRICE_MAX}.
 */
export function parseDollars(text: string): number | null {
  const match = /^(\d{1,4})(?:\.(\d{1,6}))?$/.exec(text);
  if (!match) return null;
  const price = Number(match[1]) * MILLION + Number((match[2] ?? '').padEnd(6, '0'));
  return price <= PRICE_MAX ? price : null;
}

/** A price in US dollars, with at least two digits after the point and no more than it has. */
export function formatDollars(price: number): string {
  const digits = String(price % MILLION)
    .padStart(6, '0')
    .replace(/0{1,4}$/, '');
  return `${Math.floor(price / MILLION)}.${digits}`;
}

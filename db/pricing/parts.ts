/** What a price consists of. Pure. */

/**
 * Classes of tokens. Each token is in exactly one: `input` has the part of the prompt that was neither read
 * from a cache nor written to one, and `output` the visible text. Priced per million tokens.
 */
export const TOKEN_CLASSES = [
  'input',
  'cache_read',
  'cache_write_5m',
  'cache_write_1h',
  'output',
  'reasoning',
  'audio_input',
  'audio_output',
  'image_input',
  'image_output',
] as const;
export type TokenClass = (typeof TOKEN_CLASSES)[number];

/** Counted beside the tokens: per million characters, per hour of audio or video, and per unit. */
export const UNITS = ['characters', 'media_hour', 'image', 'web_search', 'tool_call'] as const;
export type Unit = (typeof UNITS)[number];
/** Numbers of units; those of `media_hour` are milliseconds. */
export type UnitCounts = { readonly [Name in Unit]?: number };

export const PRICED_PARTS = [...TOKEN_CLASSES, ...UNITS] as const;
export type PricedPart = (typeof PRICED_PARTS)[number];

/** The fee of each request, and the least that a request costs. */
export const FEES = ['per_request', 'minimum'] as const;
export const RATE_PARTS = [...PRICED_PARTS, ...FEES] as const;
export type RatePart = (typeof RATE_PARTS)[number];

/** What each part costs in nano-dollars. An absent class costs what {@link FALLBACKS} says. */
export type Rate = { [Part in RatePart]?: number | undefined };

/** When a rule applies: where all of its conditions hold. */
export type Conditions = {
  /** The service tier that the reply states. */
  service_tier?: string | undefined;
  /** The whole prompt has more tokens than this. */
  input_tokens_above?: number | undefined;
  /** ISO 8601; of the call's admission. From the first, until before the second. */
  valid_from?: string | undefined;
  valid_to?: string | undefined;
  /**
   * UTC, `HH:MM`; of the call's admission. From the first, until before the second, perhaps over midnight.
   */
  hours?: { from: string; to: string } | undefined;
  /** The upstream that replied. */
  upstream?: string | undefined;
};

/** Parts that differ where the conditions hold. The base rate has the others. */
export type Rule = { when: Conditions; rate: Rate };

/** A price: a base rate, and rules of which the first that applies counts. */
export type PriceTerms = { base: Rate; rules?: readonly Rule[] | undefined };

/** The class whose price a class has that has none itself. Other parts have no price then. */
export const FALLBACKS = {
  cache_read: 'input',
  cache_write_5m: 'input',
  cache_write_1h: 'cache_write_5m',
  reasoning: 'output',
  audio_input: 'input',
  audio_output: 'output',
  image_input: 'input',
  image_output: 'output',
} as const satisfies Partial<Record<TokenClass, TokenClass>>;

/** The price of a part of a rate after fallbacks; null: it has none. */
export function priceOfPart(rate: Rate, part: PricedPart): number | null {
  const own = rate[part];
  if (own !== undefined) return own;
  return part in FALLBACKS ? priceOfPart(rate, FALLBACKS[part as keyof typeof FALLBACKS]) : null;
}

/** A mark-up in hundredths of a percent: −10,000 makes calls free. */
export const MARKUP_MIN = -10_000;
export const MARKUP_MAX = 1_000_000;

/** Each part of a rate with a mark-up, for display: a charge is rounded once, for the whole request. */
export function markedUp(rate: Rate, basisPoints: number): Rate {
  if (basisPoints === 0) return rate;
  const factor = BigInt(basisPoints - MARKUP_MIN);
  const marked: Rate = {};
  for (const part of RATE_PARTS) {
    const price = rate[part];
    if (price !== undefined) marked[part] = Number((BigInt(price) * factor + 5_000n) / 10_000n);
  }
  return marked;
}

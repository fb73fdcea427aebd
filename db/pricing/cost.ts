import type { Usage } from '#db/money.ts';
import type { UsageDetails } from '#db/events/usage-details.ts';
import { MARKUP_MIN, type PricedPart, type TokenClass, type Unit } from '#db/pricing/parts.ts';
import type { FullRate } from '#db/pricing/schedule.ts';

/** The cost of a request, exactly and in safe integers. Pure. */

const MILLION = 1_000_000;
const HOUR_MS = 3_600_000;
/**
 * A price per million is a multiple of a millionth of a nano-dollar, and a price per hour one of a
 * 3,600,000th per millisecond: both are multiples of this fraction.
 */
const FRACTION = 18_000_000;
const BASIS = -MARKUP_MIN;

/** An exact amount: whole nano-dollars, and fractions of {@link FRACTION}, fewer than one nano-dollar has. */
export type ExactCost = {
  whole: number;
  fraction: number;
  /** Parts with usage and without a price; null: none. */
  unpriced: PricedPart[] | null;
};

/**
 * The tokens of each class. No token is in two: where the parts of a prompt overlap, as cached audio does,
 * the cache counts first; and parts never exceed the whole.
 */
export function tokensOf({
  input,
  cached,
  cacheWrite = 0,
  output,
  reasoning,
  details,
}: Usage): Record<TokenClass, number> {
  let left = input;
  const cache_read = Math.min(cached, left);
  left -= cache_read;
  const written = Math.min(cacheWrite, left);
  left -= written;
  const cache_write_1h = Math.min(details?.cache_write_1h_tokens ?? 0, written);
  const audio_input = Math.min(details?.audio_input_tokens ?? 0, left);
  left -= audio_input;
  const image_input = Math.min(details?.image_input_tokens ?? 0, left);
  let visible = output;
  const thought = Math.min(reasoning, visible);
  visible -= thought;
  const audio_output = Math.min(details?.audio_output_tokens ?? 0, visible);
  visible -= audio_output;
  const image_output = Math.min(details?.image_output_tokens ?? 0, visible);
  return {
    input: left - image_input,
    cache_read,
    cache_write_5m: written - cache_write_1h,
    cache_write_1h,
    output: visible - image_output,
    reasoning: thought,
    audio_input,
    audio_output,
    image_input,
    image_output,
  };
}

/**
 * The cost of a usage at a rate. Units beyond all reason saturate. A call that used nothing, since no
 * upstream worked for it, costs nothing: no fee either.
 */
export function costOf(usage: Usage, rate: FullRate): ExactCost {
  if (usesNothing(usage)) return { whole: 0, fraction: 0, unpriced: null };
  const tokens = tokensOf(usage);
  const sum = new Sum(rate.per_request);
  // Named one by one, since this runs for every call: looked up by their names they took four times as long.
  sum.addTokens('input', tokens.input, rate.input);
  sum.addTokens('cache_read', tokens.cache_read, rate.cache_read);
  sum.addTokens('cache_write_5m', tokens.cache_write_5m, rate.cache_write_5m);
  sum.addTokens('cache_write_1h', tokens.cache_write_1h, rate.cache_write_1h);
  sum.addTokens('output', tokens.output, rate.output);
  sum.addTokens('reasoning', tokens.reasoning, rate.reasoning);
  if (usage.details !== undefined) addDetails(sum, tokens, usage.details, rate);
  return sum.atLeast(rate.minimum);
}

/** Adds the rest of the classes, which only a usage with details can have, and the units. */
function addDetails(
  sum: Sum,
  tokens: Record<TokenClass, number>,
  details: UsageDetails,
  rate: FullRate,
): void {
  for (const part of DETAILED_CLASSES) sum.addTokens(part, tokens[part], rate[part]);
  for (const [part, field] of UNIT_FIELDS) sum.addUnits(part, details[field] ?? 0, rate[part]);
}

function usesNothing({ input, output, details }: Usage): boolean {
  if (input > 0 || output > 0) return false;
  return details === undefined || Object.values(details).every((count) => count === 0);
}

const DETAILED_CLASSES = [
  'audio_input',
  'audio_output',
  'image_input',
  'image_output',
] as const satisfies readonly TokenClass[];
const UNIT_FIELDS = [
  ['characters', 'characters'],
  ['media_hour', 'media_ms'],
  ['image', 'images'],
  ['web_search', 'web_searches'],
  ['tool_call', 'tool_calls'],
] as const satisfies readonly (readonly [Unit, keyof UsageDetails])[];

/**
 * A sum of products. What one of something costs in whole nano-dollars and the rest are added up apart, so
 * that every product of tokens is a safe integer.
 */
export class Sum {
  #whole: number;
  #millionths = 0;
  #hourly = 0;
  #unpriced: PricedPart[] | null = null;

  constructor(whole: number) {
    this.#whole = whole;
  }

  /** @param pricePerMillion null: none is set. */
  addTokens(part: PricedPart, count: number, pricePerMillion: number | null): void {
    if (count === 0) return;
    if (pricePerMillion === null) return this.#lack(part);
    this.#whole += count * Math.floor(pricePerMillion / MILLION);
    this.#millionths += count * (pricePerMillion % MILLION);
  }

  addUnits(unit: Unit, count: number, price: number | null): void {
    if (count === 0) return;
    if (price === null) return this.#lack(unit);
    if (unit === 'characters') {
      this.#whole += Math.floor(count / MILLION) * price;
      this.addTokens(unit, count % MILLION, price);
    } else if (unit === 'media_hour') {
      const rest = count % HOUR_MS;
      this.#whole += Math.floor(count / HOUR_MS) * price + rest * Math.floor(price / HOUR_MS);
      this.#hourly += rest * (price % HOUR_MS);
    } else this.#whole += count * price;
  }

  #lack(part: PricedPart): void {
    (this.#unpriced ??= []).push(part);
  }

  /** The sum, or the minimum if that is more. */
  atLeast(minimum: number): ExactCost {
    const fraction =
      (this.#millionths % MILLION) * (FRACTION / MILLION) + (this.#hourly % HOUR_MS) * (FRACTION / HOUR_MS);
    const whole =
      this.#whole +
      Math.floor(this.#millionths / MILLION) +
      Math.floor(this.#hourly / HOUR_MS) +
      Math.floor(fraction / FRACTION);
    const unpriced = this.#unpriced;
    return whole < minimum
      ? { whole: minimum, fraction: 0, unpriced }
      : { whole, fraction: fraction % FRACTION, unpriced };
  }
}

/**
 * An amount with a mark-up in basis points, rounded to the nearest nano-dollar, half up; at most
 * `Number.MAX_SAFE_INTEGER`.
 */
export function roundCost({ whole, fraction }: Pick<ExactCost, 'whole' | 'fraction'>, markup = 0): number {
  if (whole >= Number.MAX_SAFE_INTEGER) [whole, fraction] = [Number.MAX_SAFE_INTEGER, 0];
  if (markup === 0) return whole + (2 * fraction >= FRACTION ? 1 : 0);
  const factor = BASIS + markup;
  const product = whole * factor;
  if (product > Number.MAX_SAFE_INTEGER) {
    const exact = (BigInt(whole) * BigInt(FRACTION) + BigInt(fraction)) * BigInt(factor);
    const unit = BigInt(FRACTION) * BigInt(BASIS);
    return Math.min(Number.MAX_SAFE_INTEGER, Number((exact + unit / 2n) / unit));
  }
  const rest = (product % BASIS) * FRACTION + fraction * factor;
  return Math.floor(product / BASIS) + Math.floor((rest + (FRACTION * BASIS) / 2) / (FRACTION * BASIS));
}

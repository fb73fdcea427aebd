import type { ConditionalPrice, ModelInfo, ModelPrice } from '@pydantic/genai-prices';
import { RULES_MAX } from '#db/events/price-events.ts';
import { PRICE_MAX } from '#db/money.ts';
import {
  type Conditions,
  FALLBACKS,
  PRICED_PARTS,
  type PriceTerms,
  priceOfPart,
  type Rate,
  type RatePart,
  type Rule,
} from '#db/pricing/parts.ts';

/** A model's entry in a price list as a price: its tiers, dates and times of day are rules. Pure. */

/** A part of an entry that a price can't express. The rest of the entry is offered. */
export type Unsupported = { part: string; reason: string };
/** A price, or why the entry has none that can be expressed. */
export type ListPrice = { terms: PriceTerms; unsupported: Unsupported[] } | string;

/** The list's parts, with ours, and how many of ours the list's price is for. */
const PARTS: Record<string, readonly [RatePart, number]> = {
  input_mtok: ['input', 1],
  cache_read_mtok: ['cache_read', 1],
  cache_write_mtok: ['cache_write_5m', 1],
  cache_write_1h_mtok: ['cache_write_1h', 1],
  output_mtok: ['output', 1],
  output_reasoning_mtok: ['reasoning', 1],
  input_audio_mtok: ['audio_input', 1],
  output_audio_mtok: ['audio_output', 1],
  input_image_mtok: ['image_input', 1],
  output_image_mtok: ['image_output', 1],
  web_searches_kcount: ['web_search', 1_000],
  requests_kcount: ['per_request', 1_000],
  audio_hours: ['media_hour', 1],
  input_audio_hours: ['media_hour', 1],
};

/**
 * Parts without one of ours, as which their tokens are counted: they lose nothing where the price is equal.
 */
const COUNTED_AS: Record<string, RatePart> = {
  cache_audio_read_mtok: 'cache_read',
  cache_image_read_mtok: 'cache_read',
  input_video_mtok: 'input',
  output_video_mtok: 'output',
};

const NANO = 1e9;

/** @param at the time whose price is the base rate. Earlier prices are left to the log. */
export function listPrice({ prices }: ModelInfo, at: Date): ListPrice {
  const entries = Array.isArray(prices) ? prices : [{ prices }];
  const unsupported = new Map<string, Unsupported>();
  const rules: { when: Conditions; rate: Rate }[] = [];
  // The last entry whose constraint holds counts.
  for (const entry of entries.toReversed()) {
    const when = conditionsOf(entry);
    if (typeof when === 'string') return when;
    const isBase = when === null || hasBegun(when, at);
    const rates = ratesOf(entry.prices, unsupported);
    if (typeof rates === 'string') return rates;
    for (const { above, rate } of rates) {
      const conditions = {
        ...(isBase ? {} : when),
        ...(above === null ? {} : { input_tokens_above: above }),
      };
      rules.push({ when: conditions, rate });
    }
    if (isBase) break;
  }
  const base = rules.pop()?.rate;
  if (!base || Object.keys(base).length === 0) return reasonOf(unsupported.values());
  const terms = relativeTo(base, rules);
  if (typeof terms === 'string') return terms;
  return { terms, unsupported: [...unsupported.values()] };
}

function reasonOf(unsupported: Iterable<Unsupported>): string {
  const parts = [...unsupported].map(({ part }) => part);
  return parts.length === 0
    ? 'has no price'
    : `priced only by ${parts.join(', ')}, which a price can't express`;
}

/** The rules with what differs from the base rate, after fallbacks. */
function relativeTo(base: Rate, full: readonly Rule[]): PriceTerms | string {
  const rules: Rule[] = [];
  for (const { when, rate } of full) {
    const own: Rate = {};
    for (const part of [...PRICED_PARTS, 'per_request'] as const) {
      const wanted = part === 'per_request' ? (rate[part] ?? 0) : priceOfPart(rate, part);
      if (wanted === null && base[part] !== undefined)
        return `${part} has a price only under some conditions`;
      if (wanted !== null && (rate[part] !== undefined || base[part] !== undefined)) own[part] = wanted;
    }
    for (const part of Object.keys(own) as RatePart[]) {
      const merged = { ...base, ...own, [part]: base[part] };
      // A part that the rule would have without saying so.
      const inherited = part in FALLBACKS ? priceOfPart(merged, part as keyof typeof FALLBACKS) : base[part];
      if (own[part] === inherited || (part === 'per_request' && own[part] === (base[part] ?? 0)))
        delete own[part];
    }
    rules.push({ when, rate: own });
  }
  // A rule without a difference still ends the search, so it can be dropped only at the end.
  while (rules.length > 0 && Object.keys(rules.at(-1)?.rate ?? {}).length === 0) rules.pop();
  for (const { rate } of rules) if (Object.keys(rate).length === 0) Object.assign(rate, firstPart(base));
  if (rules.length > RULES_MAX) return `needs ${rules.length} rules; a price has at most ${RULES_MAX}`;
  return rules.length === 0 ? { base } : { base, rules };
}

function firstPart(base: Rate): Rate {
  const [part, price] = Object.entries(base)[0] as [RatePart, number];
  return { [part]: price };
}

/** The rates of an entry: those of its tiers, the highest first, and the rate below them. */
function ratesOf(
  list: ModelPrice,
  unsupported: Map<string, Unsupported>,
): { above: number | null; rate: Rate }[] | string {
  const starts = Object.values(list).flatMap((price) =>
    typeof price === 'object' ? price.tiers.map(({ start }) => start) : [],
  );
  const tiers = [...new Set(starts)].toSorted((one, other) => other - one);
  const rates: { above: number | null; rate: Rate }[] = [];
  for (const above of [...tiers, null]) {
    const rate = rateOf(list, above, unsupported);
    if (typeof rate === 'string') return rate;
    rates.push({ above, rate });
  }
  return rates;
}

/** @param above the tier: of prompts with more tokens than this; null: below all tiers. */
function rateOf(
  list: ModelPrice,
  above: number | null,
  unsupported: Map<string, Unsupported>,
): Rate | string {
  const rate: Rate = {};
  const others: [string, number][] = [];
  for (const [name, price] of Object.entries(list)) {
    if (price === undefined) continue;
    const dollars = typeof price === 'object' ? tierPrice(price, above) : price;
    const [part, per] = PARTS[name] ?? [];
    const nanousd = Math.round((dollars / (per ?? 1)) * NANO);
    if (!Number.isSafeInteger(nanousd) || nanousd < 0 || nanousd > PRICE_MAX)
      return `its ${name} is out of range`;
    if (part === undefined) others.push([name, nanousd]);
    else if (Math.abs(nanousd / NANO - dollars / (per ?? 1)) > 1e-12)
      return `its ${name} of ${dollars} dollars is finer than a nano-dollar`;
    else if (rate[part] !== undefined && rate[part] !== nanousd)
      unsupported.set(name, { part: name, reason: `another price for ${part}` });
    else rate[part] = nanousd;
  }
  for (const [name, nanousd] of others) {
    const counted = COUNTED_AS[name];
    const own = counted && priceOfPart(rate, counted as (typeof PRICED_PARTS)[number]);
    if (own === nanousd) continue;
    unsupported.set(name, {
      part: name,
      reason: counted ? `its tokens are priced as ${counted}` : 'prices have no such part',
    });
  }
  return rate;
}

function tierPrice(
  { base, tiers }: Exclude<ModelPrice[string], number | undefined>,
  above: number | null,
): number {
  let price = base;
  let from = -1;
  for (const tier of tiers)
    if (above !== null && tier.start <= above && tier.start > from) [price, from] = [tier.price, tier.start];
  return price;
}

/** Null: none. */
function conditionsOf({ constraint }: ConditionalPrice): Conditions | string | null {
  if (!constraint) return null;
  if ('start_date' in constraint) {
    const from = new Date(constraint.start_date);
    if (Number.isNaN(from.getTime())) return `its price starts on "${constraint.start_date}"`;
    return { valid_from: from.toISOString() };
  }
  const [from, to] = [timeOfDay(constraint.start_time), timeOfDay(constraint.end_time)];
  if (from === null || to === null || from === to)
    return `its price depends on the time ${constraint.start_time} to ${constraint.end_time}`;
  return { hours: { from, to } };
}

const hasBegun = ({ valid_from: from, hours }: Conditions, at: Date): boolean =>
  hours === undefined && from !== undefined && new Date(from) <= at;

/** A time of day in UTC; null: not a whole minute. */
function timeOfDay(text: string): string | null {
  const [, hour, minute, sign, hours = '0', minutes = '0'] =
    /^(\d{2}):(\d{2})(?::00(?:\.0+)?)?(?:Z|([+-])(\d{2}):(\d{2}))$/.exec(text) ?? [];
  if (hour === undefined || minute === undefined) return null;
  const offset = (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -1 : 1);
  const utc = (Number(hour) * 60 + Number(minute) - offset + 1_440) % 1_440;
  return `${String(Math.floor(utc / 60)).padStart(2, '0')}:${String(utc % 60).padStart(2, '0')}`;
}

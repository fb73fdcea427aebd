import { formatDollars, parseDollars } from '#db/money.ts';
import { costOf, roundCost } from '#db/pricing/cost.ts';
import type { Conditions, PriceTerms, Rate, RatePart } from '#db/pricing/parts.ts';
import { scheduleOf } from '#db/pricing/schedule.ts';
import type { PlanRow } from '#server/contract/accounts.ts';
import type { PriceRow } from '#server/contract/models.ts';

/** Price lookup by model name, and parsing of typed prices. Pure. */

/**
 * The price of a model: an exact match, else the longest matching prefix. Case-insensitive.
 * @param plan whose sell price; null: the provider's price.
 */
export function priceFor(
  model: string,
  prices: readonly PriceRow[],
  plan: string | null = null,
): PriceRow | null {
  const name = model.toLowerCase();
  let best: PriceRow | null = null;
  let bestLength = -1;
  for (const row of prices) {
    if (row.plan !== plan) continue;
    const pattern = row.model.toLowerCase();
    if (pattern === name && !pattern.endsWith('*')) return row;
    const length = pattern.length - 1;
    if (pattern.endsWith('*') && name.startsWith(pattern.slice(0, -1)) && length > bestLength)
      [best, bestLength] = [row, length];
  }
  return best;
}

/** The parts that the page edits, in dollars per million tokens. The command line sets the others. */
export const PRICE_FIELDS = ['input', 'cache_read', 'cache_write_5m', 'output', 'reasoning'] as const;
export type PriceField = (typeof PRICE_FIELDS)[number];
export type TypedPrices = Record<PriceField, string>;

/** The field whose price a field has while it is empty. */
export const DEFAULTS: Partial<Record<PriceField, PriceField>> = {
  cache_read: 'input',
  cache_write_5m: 'input',
  reasoning: 'output',
};

export const NO_PRICE: TypedPrices = {
  input: '',
  cache_read: '',
  cache_write_5m: '',
  output: '',
  reasoning: '',
};

/** A base rate as typed text. A part without a price of its own is empty. */
export function typedFrom(base: Rate): TypedPrices {
  return Object.fromEntries(
    PRICE_FIELDS.map((field) => [field, base[field] === undefined ? '' : formatDollars(base[field])]),
  ) as TypedPrices;
}

const WRONG = 'Enter dollars from 0 to 1000 with at most nine decimals, such as 2.50.';

/**
 * Parses typed prices to whole nano-dollars, or returns an error per field. Exact: no floating-point
 * arithmetic.
 * @param before the price that is edited; its other parts and its rules stay.
 */
export function readTyped(
  typed: TypedPrices,
  before: PriceTerms | null,
): { terms: PriceTerms } | { wrong: Partial<Record<PriceField, string>> } {
  const base: Rate = { ...before?.base };
  const wrong: Partial<Record<PriceField, string>> = {};
  for (const field of PRICE_FIELDS) {
    const text = typed[field].trim().replace(/^\$\s*/, '');
    const price = parseDollars(text);
    // Models that return vectors have no output; a price without input is of images or audio.
    if (text === '' && (field !== 'input' || base.media_hour !== undefined || base.image !== undefined))
      delete base[field];
    else if (price === null) wrong[field] = WRONG;
    else base[field] = price;
  }
  if (Object.keys(wrong).length > 0) return { wrong };
  return { terms: before?.rules === undefined ? { base } : { base, rules: before.rules } };
}

/** The tokens of a request that stands for all others in examples. */
export const EXAMPLE = { input: 10_000, output: 1_000 };

/** What the example costs. @param markup in hundredths of a percent. */
export const exampleCost = (terms: PriceTerms, markup = 0): number =>
  roundCost(costOf({ ...EXAMPLE, cached: 0, reasoning: 0 }, scheduleOf(terms).base), markup);

/** What accounts of a plan are charged for a model: the plan's sell price, else the cost with its mark-up. */
export type PlanCharge = {
  plan: string;
  way: 'sell' | 'markup' | 'cost';
  /** In hundredths of a percent. */
  markup: number;
  /** Of the example; null: no price is set. */
  example: number | null;
};

/** The charges of all active plans, by name. */
export function chargesByPlan(
  model: string,
  prices: readonly PriceRow[],
  plans: readonly PlanRow[],
): PlanCharge[] {
  const cost = priceFor(model, prices);
  return plans
    .filter(({ state }) => state === 'active')
    .map(({ name: plan, terms: { markup = 0 } }): PlanCharge => {
      const sell = priceFor(model, prices, plan);
      if (sell) return { plan, way: 'sell', markup: 0, example: exampleCost(sell) };
      const example = cost && exampleCost(cost, markup);
      return { plan, way: markup === 0 ? 'cost' : 'markup', markup, example };
    });
}

/** The prices as they will be with this one. */
export const withPrice = (
  prices: readonly PriceRow[],
  { model, plan, terms }: { model: string; plan: string | null; terms: PriceTerms },
): PriceRow[] => [
  ...prices.filter((row) => row.plan !== plan || row.model.toLowerCase() !== model.toLowerCase()),
  { model, plan, ...terms, source: 'manual', version: 0 },
];

const PART_NAMES: Record<RatePart, string> = {
  input: 'input',
  cache_read: 'cache read',
  cache_write_5m: 'cache write',
  cache_write_1h: '1-hour cache write',
  output: 'output',
  reasoning: 'reasoning',
  audio_input: 'audio input',
  audio_output: 'audio output',
  image_input: 'image input',
  image_output: 'image output',
  characters: 'million characters',
  media_hour: 'hour of audio or video',
  image: 'image',
  web_search: 'web search',
  tool_call: 'tool call',
  per_request: 'request',
  minimum: 'minimum per request',
};

/** A rate in words: `input 2.50, output 10.00`. */
export function showRate(rate: Rate, except: readonly RatePart[] = []): string {
  return (Object.keys(PART_NAMES) as RatePart[])
    .filter((part) => rate[part] !== undefined && !except.includes(part))
    .map((part) => `${PART_NAMES[part]} ${formatDollars(rate[part] ?? 0)}`)
    .join(', ');
}

/** Conditions in words: `service tier batch, above 200,000 input tokens`. */
export function showConditions(when: Conditions, count: (value: number) => string): string {
  const { service_tier, input_tokens_above, valid_from, valid_to, hours, upstream } = when;
  return [
    service_tier === undefined ? [] : [`service tier ${service_tier}`],
    input_tokens_above === undefined ? [] : [`above ${count(input_tokens_above)} input tokens`],
    valid_from === undefined ? [] : [`from ${valid_from}`],
    valid_to === undefined ? [] : [`until ${valid_to}`],
    hours === undefined ? [] : [`${hours.from} to ${hours.to} UTC`],
    upstream === undefined ? [] : [`upstream ${upstream}`],
  ]
    .flat()
    .join(', ');
}

/** A price in one line, with its rules. */
export function showTerms({ base, rules = [] }: PriceTerms, count: (value: number) => string): string {
  return [
    showRate(base),
    ...rules.map(({ when, rate }) => `${showConditions(when, count)}: ${showRate(rate)}`),
  ].join('; ');
}

import { costOf, formatDollars, parseDollars, type Prices } from '#db/money.ts';
import type { PriceRow } from '#server/contract/models.ts';

/** Price lookup by model name, and parsing of typed prices. Pure. */

/** The effective price of a model: an exact match, else the longest matching prefix. Case-insensitive. */
export function priceFor(model: string, prices: readonly PriceRow[]): PriceRow | null {
  const name = model.toLowerCase();
  let best: PriceRow | null = null;
  let bestLength = -1;
  for (const row of prices) {
    const pattern = row.model.toLowerCase();
    if (pattern === name && !pattern.endsWith('*')) return row;
    const length = pattern.length - 1;
    if (pattern.endsWith('*') && name.startsWith(pattern.slice(0, -1)) && length > bestLength)
      [best, bestLength] = [row, length];
  }
  return best;
}

/** Fields of a price in dollars per million tokens. */
export const PRICE_FIELDS = ['input', 'cached_input', 'output', 'reasoning'] as const;
export type PriceField = (typeof PRICE_FIELDS)[number];
export type TypedPrices = Record<PriceField, string>;

export const NO_PRICE: TypedPrices = { input: '', cached_input: '', output: '', reasoning: '' };

/** A price as typed text. A field that equals its default is empty. */
export function typedFrom({ input, cached_input, output, reasoning }: Prices): TypedPrices {
  return {
    input: formatDollars(input),
    cached_input: cached_input === input ? '' : formatDollars(cached_input),
    output: formatDollars(output),
    reasoning: reasoning === output ? '' : formatDollars(reasoning),
  };
}

const WRONG = 'Enter dollars from 0 to 1000 with at most nine decimals, such as 2.50.';

/**
 * Parses typed prices to whole nano-dollars, or returns an error per field. Exact: no floating-point
 * arithmetic.
 */
export function readTyped(
  typed: TypedPrices,
): { prices: Prices } | { wrong: Partial<Record<PriceField, string>> } {
  const defaults: Partial<Record<PriceField, PriceField>> = { cached_input: 'input', reasoning: 'output' };
  const read = (field: PriceField): number | null => {
    const text = typed[field].trim().replace(/^\$\s*/, '');
    const other = defaults[field];
    return text === '' && other !== undefined ? read(other) : parseDollars(text);
  };
  const values = PRICE_FIELDS.map((field) => [field, read(field)] as const);
  const wrong = values.filter(
    ([field, value]) => value === null && (defaults[field] === undefined || typed[field].trim() !== ''),
  );
  if (wrong.length > 0) return { wrong: Object.fromEntries(wrong.map(([field]) => [field, WRONG])) };
  return { prices: Object.fromEntries(values) as Prices };
}

/** The cost of a request with 10,000 input and 1,000 output tokens, as an example. */
export const exampleCost = (prices: Prices): number =>
  costOf({ input: 10_000, cached: 0, output: 1_000, reasoning: 0 }, prices);

import { costOf, formatDollars, parseDollars, type Prices } from '#db/money.ts';
import type { PriceRow } from '#server/contract/models.ts';

/** Prices of models: which of them counts for a name, and how they are typed. Pure. */

/**
 * The price that calls of a model have: the one by its full name, else the one by the longest
 * beginning of names. Letter case makes no difference.
 */
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

/** The fields of a price, as they are typed: dollars for a million tokens. */
export const PRICE_FIELDS = ['input', 'cached_input', 'output', 'reasoning'] as const;
export type PriceField = (typeof PRICE_FIELDS)[number];
export type TypedPrices = Record<PriceField, string>;

export const NO_PRICE: TypedPrices = { input: '', cached_input: '', output: '', reasoning: '' };

/** A price in the form that is typed. What is like the one that it stands in for is left empty. */
export function typedFrom({ input, cached_input, output, reasoning }: Prices): TypedPrices {
  return {
    input: formatDollars(input),
    cached_input: cached_input === input ? '' : formatDollars(cached_input),
    output: formatDollars(output),
    reasoning: reasoning === output ? '' : formatDollars(reasoning),
  };
}

const WRONG = 'Dollars such as 2.50: from 0 to 1000, at most six digits after the point.';

/**
 * Reads what was typed: whole micro-dollars, or what is wrong with which field. Exact: nothing passes through
 * a binary fraction.
 */
export function readTyped(
  typed: TypedPrices,
): { prices: Prices } | { wrong: Partial<Record<PriceField, string>> } {
  const stands: Partial<Record<PriceField, PriceField>> = { cached_input: 'input', reasoning: 'output' };
  const read = (field: PriceField): number | null => {
    const text = typed[field].trim().replace(/^\$\s*/, '');
    const other = stands[field];
    return text === '' && other !== undefined ? read(other) : parseDollars(text);
  };
  const values = PRICE_FIELDS.map((field) => [field, read(field)] as const);
  const wrong = values.filter(
    ([field, value]) => value === null && (stands[field] === undefined || typed[field].trim() !== ''),
  );
  if (wrong.length > 0) return { wrong: Object.fromEntries(wrong.map(([field]) => [field, WRONG])) };
  return { prices: Object.fromEntries(values) as Prices };
}

/** What a call of ten thousand tokens and a reply of one thousand costs: a price that one can imagine. */
export const exampleCost = (prices: Prices): number =>
  costOf({ input: 10_000, cached: 0, output: 1_000, reasoning: 0 }, prices);

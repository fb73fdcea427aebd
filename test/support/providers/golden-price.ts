import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import type { PriceTerms } from '#db/pricing/parts.ts';
import { PriceInFile, priceFromFile } from '#server/cli/prices/price-file.ts';
import { COST_FOLDER } from './cost-fixtures.ts';

/** The published price of a reply in `test/fixtures/cost`, and the cost by the arithmetic beside it. */
export type GoldenPrice = {
  terms: PriceTerms;
  /** Of the admission, in minutes since 1970; 0 where the price depends on no time. */
  minute: number;
  /** Nano-dollars. */
  cost: number;
  /** Parts with usage that the price does not have. */
  unpriced: readonly string[];
  /** Whether the provider states the same cost in its reply. */
  equalsStated: boolean;
};

/** Reads `NAME.cost.yaml`. */
export function readGoldenPrice(name: string): GoldenPrice {
  const file = parse(readFileSync(path.join(COST_FOLDER, `${name}.cost.yaml`), 'utf8')) as {
    price: unknown;
    at?: string;
    cost_nanousd: number;
    equals_stated?: boolean;
    unpriced?: string[];
  };
  return {
    terms: priceFromFile(PriceInFile.parse(file.price)),
    minute: file.at === undefined ? 0 : Date.parse(file.at) / 60_000,
    cost: file.cost_nanousd,
    unpriced: file.unpriced ?? [],
    equalsStated: file.equals_stated ?? false,
  };
}

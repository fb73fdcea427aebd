import type { Provider } from '@pydantic/genai-prices';
import { parse } from 'yaml';
import { z } from 'zod';
import { checkTerms } from '#server/cli/accounts/terms-file.ts';
import { PriceFault, PriceInFile, priceFromFile } from '#server/cli/prices/price-file.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { Offered } from '#server/read-model/price-import.ts';
import { gatherOffers } from '#server/read-model/price-snapshot.ts';

/** A price list that an operator brings: prices in YAML, or providers in the format of genai-prices. */

const FileOfPrices = z.strictObject({
  source: z.string().regex(/^[\x20-\x7e]{1,100}$/, 'must be 1 to 100 printable ASCII characters'),
  prices: z.record(z.string(), PriceInFile),
});

const Amount = z.union([
  z.number(),
  z.object({ base: z.number(), tiers: z.array(z.object({ start: z.int().min(0), price: z.number() })) }),
]);
const Constraint = z.union([
  z.object({ start_date: z.string() }),
  z.object({ start_time: z.string(), end_time: z.string() }),
]);
const ModelPrice = z.record(
  z.string(),
  Amount.nullable().transform((price) => price ?? undefined),
);
const Match: z.ZodType = z.lazy(() =>
  z.union([
    z.strictObject({ equals: z.string() }),
    z.strictObject({ starts_with: z.string() }),
    z.strictObject({ ends_with: z.string() }),
    z.strictObject({ contains: z.string() }),
    z.strictObject({ regex: z.string() }),
    z.strictObject({ or: z.array(Match) }),
    z.strictObject({ and: z.array(Match) }),
  ]),
);
const Providers = z.array(
  z.looseObject({
    id: z.string(),
    models: z.array(
      z.looseObject({
        id: z.string(),
        match: Match,
        prices: z.union([
          z.array(z.object({ constraint: Constraint.nullish(), prices: ModelPrice })),
          ModelPrice,
        ]),
      }),
    ),
  }),
);

/**
 * Offers the prices of a file. Of a list of providers, those of the named providers; else of all.
 * @throws {DecisionError} with one line that names the file and the field.
 */
export function offerFromFile(
  text: string,
  name: string,
  named: readonly string[],
  models: readonly string[] | undefined,
): Offered {
  let value: unknown;
  try {
    value = parse(text);
  } catch {
    throw new DecisionError('invalid', `${name} is neither YAML nor JSON.`);
  }
  if (Array.isArray(value)) return offerFromList(value, name, named, models);
  const { source, prices } = checkTerms(FileOfPrices, value, `${name}: `);
  const offers = Object.entries(prices).map(([pattern, price]) => {
    try {
      return { pattern, terms: priceFromFile(price), source, notes: [] };
    } catch (error) {
      if (!(error instanceof PriceFault)) throw error;
      throw new DecisionError('invalid', `${name}: prices.${pattern}: ${error.message}`);
    }
  });
  const wanted = models && new Set(models);
  const found = new Set(offers.map(({ pattern }) => pattern));
  return {
    source,
    providers: [],
    offers: wanted ? offers.filter(({ pattern }) => wanted.has(pattern)) : offers,
    skipped: (models ?? [])
      .filter((model) => !found.has(model))
      .map((model) => ({ provider: source, model, why: 'not in the file' })),
  };
}

function offerFromList(
  value: readonly unknown[],
  name: string,
  named: readonly string[],
  models: readonly string[] | undefined,
): Offered {
  const all = checkTerms(Providers, value, `${name}: `) as unknown as Provider[];
  const missing = named.find((id) => !all.some((provider) => provider.id === id));
  if (missing !== undefined) throw new DecisionError('not_found', `${name} has no provider "${missing}".`);
  const providers = named.length === 0 ? all : all.filter(({ id }) => named.includes(id));
  const source = `file ${name}`.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 100);
  return {
    source,
    providers: providers.map(({ id }) => id),
    ...gatherOffers(providers, models, { source, at: new Date() }),
  };
}

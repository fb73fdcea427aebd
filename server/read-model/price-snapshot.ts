import { findProvider, type MatchLogic, type ModelInfo, type Provider } from '@pydantic/genai-prices';
import { readFileSync } from 'node:fs';
import { MODEL_NAME } from '#db/events/parts.ts';
import type { Offer } from '#server/decide/price.ts';
import { listPrice } from '#server/read-model/list-price.ts';

/**
 * The price list that is installed with Daybook, as of its release. It is never fetched from the network, and
 * prices change only by an import. The rules of a provider's list become exact names and prefixes; models
 * matched only by other rules are skipped and reported.
 */
export type Skipped = { provider: string; model: string; why: string };

/** `genai-prices` with its version: the source of the prices that come from it. */
export function snapshotSource(): string {
  const file = new URL('../package.json', import.meta.resolve('@pydantic/genai-prices'));
  return `genai-prices ${(JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version}`;
}

/** The provider with this id, or undefined. */
export function providerById(id: string): Provider | undefined {
  const provider = findProvider({ providerId: id });
  // The package also returns providers whose id is only a part of the requested one.
  return provider?.id === id ? provider : undefined;
}

/** The provider whose API an upstream's address belongs to, or undefined. */
export function providerAt(baseUrl: string): Provider | undefined {
  return findProvider({ providerApiUrl: baseUrl });
}

/**
 * The prices of the providers' lists under their names and prefixes; or only those of the named models under
 * exactly these names, matched by any rule of a list. If several providers price a name, the first provider
 * counts.
 * @param list.at the time whose prices are used: lists also have past and future prices.
 */
export function gatherOffers(
  providers: readonly Provider[],
  models: readonly string[] | undefined,
  list: { source: string; at: Date },
): { offers: Offer[]; skipped: Skipped[] } {
  const offers = new Map<string, Offer>();
  const skipped: Skipped[] = [];
  for (const provider of providers) {
    const read = readList(provider, list);
    for (const offer of read.offers) {
      if (offers.has(offer.pattern))
        skipped.push({
          provider: provider.id,
          model: offer.pattern,
          why: 'priced by another of these providers',
        });
      else offers.set(offer.pattern, offer);
    }
    skipped.push(...read.skipped);
  }
  if (!models) return { offers: [...offers.values()], skipped };
  const found = models.map((model) => offers.get(model) ?? readOne(providers, model, list));
  return {
    offers: found.filter((each) => 'pattern' in each),
    skipped: found.filter((each) => 'why' in each),
  };
}

/** The prices of a provider's list that are matched by a name or a prefix. */
function readList(
  provider: Provider,
  { source, at }: { source: string; at: Date },
): { offers: Offer[]; skipped: Skipped[] } {
  const offers = new Map<string, Offer>();
  const skipped: Skipped[] = [];
  const skip = (model: string, why: string): number => skipped.push({ provider: provider.id, model, why });
  for (const model of provider.models) {
    const priced = readPrice(model, at);
    const { patterns, others } = patternsOf(provider, model);
    if (typeof priced === 'string') skip(model.id, priced);
    else if (patterns.length === 0)
      skip(model.id, others > 0 ? `matched only by ${rules(others)}` : "its names are another model's");
    else {
      if (others > 0) skip(model.id, `${rules(others)} besides its names`);
      for (const pattern of patterns)
        if (!offers.has(pattern)) offers.set(pattern, { pattern, source, ...priced });
    }
  }
  return { offers: [...offers.values()], skipped };
}

/**
 * The price of one model under exactly its name, matched by any rule of the lists; or why it has no price.
 */
function readOne(
  providers: readonly Provider[],
  model: string,
  { source, at }: { source: string; at: Date },
): Offer | Skipped {
  for (const provider of providers) {
    const found = model.includes('*') ? undefined : modelNamed(provider, model);
    if (!found) continue;
    const priced = readPrice(found, at);
    return typeof priced === 'string'
      ? { provider: provider.id, model, why: priced }
      : { pattern: model, source, ...priced };
  }
  return { provider: providers.map(({ id }) => id).join(', '), model, why: 'not in the list' };
}

const rules = (count: number): string =>
  count === 1 ? 'a rule that is not a name or prefix' : `${count} rules that are not names or prefixes`;

/** The list's own order decides where several models fit a name. */
function modelNamed(provider: Provider, name: string): ModelInfo | undefined {
  return provider.models.find(({ match }) => fits(match, name.toLowerCase()));
}

function fits(match: MatchLogic, name: string): boolean {
  if ('or' in match) return match.or.some((each) => fits(each, name));
  if ('and' in match) return match.and.every((each) => fits(each, name));
  if ('equals' in match) return name === match.equals.toLowerCase();
  if ('starts_with' in match) return name.startsWith(match.starts_with.toLowerCase());
  if ('ends_with' in match) return name.endsWith(match.ends_with.toLowerCase());
  if ('contains' in match) return name.includes(match.contains.toLowerCase());
  return new RegExp(match.regex).test(name);
}

/**
 * A model's names and prefixes, without those that match an earlier model of the list; and the number of
 * rules that are neither.
 */
function patternsOf(provider: Provider, model: ModelInfo): { patterns: string[]; others: number } {
  const clauses = 'or' in model.match ? model.match.or : [model.match];
  const patterns: string[] = [];
  let others = 0;
  for (const clause of clauses) {
    if ('equals' in clause) patterns.push(clause.equals);
    else if ('starts_with' in clause) patterns.push(`${clause.starts_with}*`);
    else others += 1;
  }
  // A model matched only by other rules is still known by its id.
  if (patterns.length === 0) patterns.push(model.id);
  const usable = patterns.filter((pattern) => {
    const name = pattern.replace(/\*$/, '');
    return MODEL_NAME.test(name) && !name.includes('*') && modelNamed(provider, name) === model;
  });
  return { patterns: [...new Set(usable)], others };
}

/** The price of a model, with notes about it; or why it has none. */
function readPrice(model: ModelInfo, at: Date): Pick<Offer, 'terms' | 'notes'> | string {
  const read = listPrice(model, at);
  if (typeof read === 'string') return read;
  return {
    terms: read.terms,
    notes: read.unsupported.map(({ part, reason }) => `not imported: ${part}: ${reason}`),
  };
}

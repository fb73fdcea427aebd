import type { Provider } from '@pydantic/genai-prices';
import type { Config } from '#server/process/config.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { Offer } from '#server/decide/price.ts';
import {
  gatherOffers,
  providerAt,
  providerById,
  type Skipped,
  snapshotSource,
} from '#server/read-model/price-snapshot.ts';

/**
 * Prices from the list that is installed with Daybook. The list takes some megabytes of memory, so servers
 * load it on demand.
 */
export type Offered = { source: string; providers: string[]; offers: Offer[]; skipped: Skipped[] };

/**
 * Offers the prices of the named providers, or else of the providers of the configured upstreams.
 * @param models offer only these, under exactly these names; absent: all.
 * @throws {DecisionError} when the list has no such provider.
 */
export function offerPrices(
  named: readonly string[],
  models: readonly string[] | undefined,
  { upstreams }: Pick<Config, 'upstreams'>,
): Offered {
  const source = snapshotSource();
  const providers = chooseProviders(named, upstreams);
  return {
    source,
    providers: providers.map(({ id }) => id),
    ...gatherOffers(providers, models, { source, at: new Date() }),
  };
}

function chooseProviders(named: readonly string[], upstreams: Config['upstreams']): Provider[] {
  if (named.length > 0) {
    return [...new Set(named)].map((id) => {
      const provider = providerById(id);
      if (!provider) throw new DecisionError('not_found', `The price list has no provider "${id}".`);
      return provider;
    });
  }
  const found = upstreams
    .map(({ base_url }) => providerAt(base_url))
    .filter((provider) => provider !== undefined);
  if (found.length === 0) {
    throw new DecisionError(
      'not_found',
      'The price list has no provider for the configured upstreams. Name a provider, such as openai.',
    );
  }
  return [...new Set(found)];
}

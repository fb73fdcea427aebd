import { reachOfHost } from '#db/addresses.ts';
import type { UpstreamConfig } from '#server/process/config.ts';
import type { UpstreamDefinition } from '#server/upstreams/upstream.ts';

/** An upstream of the environment, as one that is opened. */
export function definitionOf({
  name,
  api_key: secret,
  network,
  ...terms
}: UpstreamConfig): UpstreamDefinition {
  // Providers are reached by https; what is not is a model server of one's own, wherever its name leads.
  const where =
    network ??
    (terms.base_url.startsWith('http:') || reachOfHost(new URL(terms.base_url).hostname) === 'private'
      ? 'private'
      : 'public');
  return { name, terms: { ...terms, network: where, paused: false }, credentials: [{ id: null, secret }] };
}

import { reachOfHost } from '#db/addresses.ts';
import type { UpstreamConfig } from '#server/process/config.ts';
import type { UpstreamDefinition } from '#server/upstreams/upstream.ts';

/** The definition of an upstream that is configured in the environment. */
export function definitionOf({
  name,
  api_key: secret,
  network,
  ...terms
}: UpstreamConfig): UpstreamDefinition {
  // Providers use https; what does not is a model server of one's own, whatever its name resolves to.
  const where =
    network ??
    (terms.base_url.startsWith('http:') || reachOfHost(new URL(terms.base_url).hostname) === 'private'
      ? 'private'
      : 'public');
  return { name, terms: { ...terms, network: where, paused: false }, credentials: [{ id: null, secret }] };
}

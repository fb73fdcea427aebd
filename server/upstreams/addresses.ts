import { type Reach, reachOfHost } from '#db/addresses.ts';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';

/** Decides which addresses an upstream may have. Pure: host names are checked when they are connected to. */

export type Network = UpstreamTerms['network'];

/** Whether calls may be sent to an address of this reach. */
export function mayConnect(reach: Reach, network: Network): boolean {
  return reach === 'public' || (reach === 'private' && network === 'private');
}

/**
 * Checks a base address without looking anything up.
 * @param baseUrl with http or https.
 * @returns null, or one line for the operator.
 */
export function checkBaseUrl(baseUrl: string, network: Network): string | null {
  const url = URL.parse(baseUrl);
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.hostname === '')
    return 'The base address must be a URL such as https://api.example.com/v1.';
  const reach = reachOfHost(url.hostname);
  if (reach === null || mayConnect(reach, network)) return null;
  if (reach === 'never')
    return (
      `Requests to ${url.hostname} are never sent: it is a metadata service or not a single host. ` +
      'Use the address of the model provider.'
    );
  const { hostname } = url;
  return `${hostname} is on this machine or in a private network. Set "network" to "private" to allow it.`;
}

import { type Reach, reachOfHost } from '#db/addresses.ts';
import type { UpstreamTerms } from '#db/events/upstream-events.ts';

/** Which addresses an upstream may have. Pure: a name is judged by its addresses when it is connected to. */

export type Network = UpstreamTerms['network'];

/** Whether calls may be sent to what leads there. */
export function mayConnect(reach: Reach, network: Network): boolean {
  return reach === 'public' || (reach === 'private' && network === 'private');
}

/**
 * What is wrong with the place that a base address names, as far as that can be told without asking
 * anybody; for the person who configures it.
 * @param baseUrl with http or https.
 */
export function checkBaseUrl(baseUrl: string, network: Network): string | null {
  const url = URL.parse(baseUrl);
  if (url === null || !['http:', 'https:'].includes(url.protocol) || url.hostname === '')
    return 'The base address must be a URL such as https://api.example.com/v1.';
  const reach = reachOfHost(url.hostname);
  if (reach === null || mayConnect(reach, network)) return null;
  if (reach === 'never')
    return `Nothing is ever sent to ${url.hostname}: it is a metadata service, or no single machine. Give the address of the model provider.`;
  return `${url.hostname} is on this machine or in a private network. Set "network" to "private" if that is meant.`;
}

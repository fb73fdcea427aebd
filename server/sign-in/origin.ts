import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Config } from '#server/process/config.ts';
import { type AddressSet, isWithin, plainAddress } from '#server/access/networks.ts';
import { clientAddress } from '#server/access/request-context.ts';

/** The client's network, and the server's origin as the client sees it. */

/** The configuration that decides how clients reach this server. */
export type Reach = Pick<Config, 'PUBLIC_URL' | 'trustedProxies'>;

/**
 * Whether a request came over TLS: to this server, to a trusted proxy that says so, or because PUBLIC_URL is
 * https.
 */
export function isSecure(request: IncomingMessage, { PUBLIC_URL, trustedProxies }: Reach): boolean {
  if (request.socket instanceof TLSSocket || PUBLIC_URL?.startsWith('https:') === true) return true;
  if (trustedProxies === null || !isWithin(trustedProxies, plainAddress(request.socket.remoteAddress ?? '')))
    return false;
  return (
    String(request.headers['x-forwarded-proto'] ?? '')
      .split(',')
      .at(-1)
      ?.trim()
      .toLowerCase() === 'https'
  );
}

/** A name or address with a port, and nothing that would be read as more. */
const HOST = /^(?:[a-z0-9](?:[a-z0-9.-]{0,253})|\[[0-9a-f:.]{2,45}\])(?::\d{1,5})?$/i;

/**
 * The dashboard's origin as this browser knows it: only for display to the same browser, never for a decision
 * or for other recipients, since a request may send any Host header.
 * @param own the origin that the server knows by itself.
 */
export function originFor(request: IncomingMessage, config: Reach, own: string): string {
  if (config.PUBLIC_URL !== undefined) return config.PUBLIC_URL;
  const host = request.headers.host ?? '';
  return HOST.test(host) ? `${isSecure(request, config) ? 'https' : 'http'}://${host.toLowerCase()}` : own;
}

/** The origin of a server with this configuration, as far as it knows by itself. */
export function ownOrigin(
  config: Pick<Config, 'PUBLIC_URL' | 'HOST' | 'PORT' | 'tls'>,
  port: number = config.PORT,
): string {
  return config.PUBLIC_URL ?? `${config.tls ? 'https' : 'http'}://${visibleHost(config.HOST)}:${port}`;
}

/** A host to paste into a browser if the server listens on all addresses. */
function visibleHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

/** The network of a request's client; addresses aren't kept. */
export function networkOf(request: IncomingMessage, trustedProxies: AddressSet | null): string {
  return coarseNetwork(addressOf(request, trustedProxies));
}

/**
 * The address of a request's client and its network, to count attempts by: of IPv6 the /64, all of whose
 * addresses one client may have.
 */
export function placeOf(
  request: IncomingMessage,
  trustedProxies: AddressSet | null,
): { address: string; network: string } {
  const address = addressOf(request, trustedProxies);
  const exact = isIP(address) === 6 ? ipv6Prefix(address, 4) : address;
  return { address: exact, network: coarseNetwork(address) };
}

function addressOf(request: IncomingMessage, trustedProxies: AddressSet | null): string {
  return clientAddress(
    request.socket.remoteAddress ?? '',
    request.headers['x-forwarded-for'],
    trustedProxies,
  );
}

/**
 * The network of one household or office: a /24 of IPv4, a /48 of IPv6; `unknown` for an invalid address.
 * Pure.
 */
export function coarseNetwork(address: string): string {
  const version = isIP(address);
  if (version === 4) return `${address.slice(0, address.lastIndexOf('.'))}.0/24`;
  if (version !== 6) return 'unknown';
  return `${ipv6Prefix(address, 3)}::/48`;
}

/** The first groups of an IPv6 address, without zeros at the end. */
function ipv6Prefix(address: string, groupsKept: number): string {
  const [before = '', after] = address.toLowerCase().split('::');
  const head = before === '' ? [] : before.split(':');
  // `::` stands for zeros; if it is within the kept groups they are filled up.
  const groups =
    after === undefined
      ? head
      : [
          ...head,
          ...Array<string>(Math.max(0, 8 - head.length - groupCount(after))).fill('0'),
          ...after.split(':'),
        ];
  const first = groups
    .slice(0, groupsKept)
    .map((group) => Number.parseInt(group === '' ? '0' : group, 16).toString(16));
  return first.join(':').replace(/(?:^|:)0(?::0)*$/, '');
}

/** An IPv4 suffix counts as two groups. */
function groupCount(text: string): number {
  if (text === '') return 0;
  const groups = text.split(':');
  return groups.length + (groups.at(-1)?.includes('.') === true ? 1 : 0);
}

import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Config } from '#server/process/config.ts';
import { type AddressSet, isWithin, plainAddress } from '#server/access/networks.ts';
import { clientAddress } from '#server/access/request-context.ts';

/** From where a browser comes, and at which address it finds us. */

/** What tells how people reach this server. */
export type Reach = Pick<Config, 'PUBLIC_URL' | 'trustedProxies'>;

/**
 * Whether a request came by TLS: to us, to a proxy that is trusted to say so, or since people come by no
 * other way.
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
 * The address of the dashboard as this browser knows it: only to be shown to it, never to decide by
 * it, and never to be sent to anybody else, for a request may name any host.
 * @param own the address that the server knows of itself.
 */
export function originFor(request: IncomingMessage, config: Reach, own: string): string {
  if (config.PUBLIC_URL !== undefined) return config.PUBLIC_URL;
  const host = request.headers.host ?? '';
  return HOST.test(host) ? `${isSecure(request, config) ? 'https' : 'http'}://${host.toLowerCase()}` : own;
}

/** The address under which a server with this configuration is found, as far as it knows by itself. */
export function ownOrigin(
  config: Pick<Config, 'PUBLIC_URL' | 'HOST' | 'PORT' | 'tls'>,
  port: number = config.PORT,
): string {
  return config.PUBLIC_URL ?? `${config.tls ? 'https' : 'http'}://${visibleHost(config.HOST)}:${port}`;
}

/** The address that a person can paste when the server listens on all of them. */
function visibleHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return 'localhost';
  return host.includes(':') ? `[${host}]` : host;
}

/** Where a request comes from, as far as it is kept: the network and not the address. */
export function networkOf(request: IncomingMessage, trustedProxies: AddressSet | null): string {
  return coarseNetwork(
    clientAddress(request.socket.remoteAddress ?? '', request.headers['x-forwarded-for'], trustedProxies),
  );
}

/** What one household or office has: a /24 of IPv4, a /48 of IPv6; `unknown` where it is no address. Pure. */
export function coarseNetwork(address: string): string {
  const version = isIP(address);
  if (version === 4) return `${address.slice(0, address.lastIndexOf('.'))}.0/24`;
  if (version !== 6) return 'unknown';
  const [before = '', after] = address.toLowerCase().split('::');
  const head = before === '' ? [] : before.split(':');
  // What `::` stands for is zeros; where it begins within the first three groups they are filled up with
  // them.
  const groups =
    after === undefined
      ? head
      : [
          ...head,
          ...Array<string>(Math.max(0, 8 - head.length - groupCount(after))).fill('0'),
          ...after.split(':'),
        ];
  const first = groups
    .slice(0, 3)
    .map((group) => Number.parseInt(group === '' ? '0' : group, 16).toString(16));
  return `${first.join(':').replace(/(?:^|:)0(?::0)*$/, '')}::/48`;
}

/** An IPv4 address at the end takes the place of two groups. */
function groupCount(text: string): number {
  if (text === '') return 0;
  const groups = text.split(':');
  return groups.length + (groups.at(-1)?.includes('.') === true ? 1 : 0);
}

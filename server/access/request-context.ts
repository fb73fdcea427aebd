import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Route } from '#db/limits/limits.ts';
import { isWithin, type AddressSet, plainAddress } from '#server/access/networks.ts';

/** From where a call comes, and to which route: what permissions ask besides the key. */
export type RequestContext = {
  readonly route: Route;
  /** The Origin header; null: there was none. */
  readonly origin: string | null;
  /** The client's address; empty where it can't be known. */
  readonly address: string;
};

/** The caller of an HTTP request. Its address is found out only where a key asks for it. */
export function requestContextOf(
  request: IncomingMessage,
  route: Route,
  trustedProxies: AddressSet | null,
): RequestContext {
  return new HttpCaller(request, route, trustedProxies);
}

class HttpCaller implements RequestContext {
  readonly route: Route;
  readonly #request: IncomingMessage;
  readonly #trustedProxies: AddressSet | null;
  #address: string | null = null;

  constructor(request: IncomingMessage, route: Route, trustedProxies: AddressSet | null) {
    this.route = route;
    this.#request = request;
    this.#trustedProxies = trustedProxies;
  }

  get origin(): string | null {
    return this.#request.headers.origin ?? null;
  }

  get address(): string {
    // Kept, since a closed socket no longer knows it.
    this.#address ??= clientAddress(
      this.#request.socket.remoteAddress ?? '',
      this.#request.headers['x-forwarded-for'],
      this.#trustedProxies,
    );
    return this.#address;
  }
}

/**
 * Whose address counts: that of the socket or, where it is a trusted proxy's, the last one in
 * X-Forwarded-For that is not a trusted proxy's. Entries before it could have been forged.
 * @returns an empty text where that entry is no address.
 */
export function clientAddress(
  socketAddress: string,
  forwardedFor: string | string[] | undefined,
  trustedProxies: AddressSet | null,
): string {
  let address = plainAddress(socketAddress);
  if (trustedProxies === null || forwardedFor === undefined) return address;
  const entries = String(forwardedFor).split(',');
  while (entries.length > 0 && isWithin(trustedProxies, address))
    address = forwardedAddress(entries.pop() as string);
  return address;
}

/** Some proxies write the port too. */
const WITH_PORT = /^(?:\[([^\]]*)\](?::\d{1,5})?|(\d+\.\d+\.\d+\.\d+):\d{1,5})$/;

function forwardedAddress(entry: string): string {
  const text = entry.trim();
  const [, ipv6, ipv4] = WITH_PORT.exec(text) ?? [];
  const address = plainAddress(ipv6 ?? ipv4 ?? text);
  return isIP(address) === 0 ? '' : address;
}

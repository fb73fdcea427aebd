import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import type { Route } from '#db/limits/limits.ts';
import { isWithin, type AddressSet, plainAddress } from '#server/access/networks.ts';

/** The route and the source of a call, which permissions are checked against. */
export type RequestContext = {
  readonly route: Route;
  /** The Origin header; null: absent. */
  readonly origin: string | null;
  /** The client's address; empty where it can't be known. */
  readonly address: string;
};

/** The context of an HTTP request. The address is determined only if a key restricts networks. */
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
 * The client's address: the address of the socket or, if that is a trusted proxy, the last entry of
 * X-Forwarded-For that is not a trusted proxy. Earlier entries could be forged.
 * @returns an empty text if that entry is not an address.
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

/** Some proxies include the port. */
const WITH_PORT = /^(?:\[([^\]]*)\](?::\d{1,5})?|(\d+\.\d+\.\d+\.\d+):\d{1,5})$/;

function forwardedAddress(entry: string): string {
  const text = entry.trim();
  const [, ipv6, ipv4] = WITH_PORT.exec(text) ?? [];
  const address = plainAddress(ipv6 ?? ipv4 ?? text);
  return isIP(address) === 0 ? '' : address;
}

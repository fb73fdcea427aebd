import { type LookupAddress, lookup as lookUp, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { type Reach, reachOf, reachOfHost } from '#db/addresses.ts';
import { mayConnect, type Network } from '#server/upstreams/addresses.ts';

/**
 * Opens connections to upstreams, and decides which addresses are allowed. A name is looked up once per
 * connection, all of its addresses are checked, and only allowed ones are connected to: no second lookup
 * could return others. An address in the URL itself never comes from a lookup, so it is checked before; and
 * the remote address of every connection is checked again.
 */

/** The upstream's address is not allowed. The message contains no address: clients' errors may quote it. */
export class ForbiddenAddress extends Error {
  override name = 'ForbiddenAddress';
  readonly code = 'address_refused';
  /** `private`: its terms could allow it. */
  readonly reach: Reach;
  constructor(reach: Reach) {
    super(
      reach === 'private'
        ? 'The upstream is in a private network, which its terms do not allow.'
        : 'The upstream has an address that requests are never sent to.',
    );
    this.reach = reach;
  }
}

/** Finds all addresses of a name, as `dns.lookup` does. */
export type LookUp = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void;

export type GuardOptions = {
  network: Network;
  /** For the whole connection: lookup, TCP and TLS. */
  timeoutMs: number;
  lookup?: LookUp;
};

/**
 * A connector for undici's `connect` option. It fails with {@link ForbiddenAddress} where an address is not
 * allowed.
 */
export function guardedConnector({
  network,
  timeoutMs,
  lookup = lookUp,
}: GuardOptions): buildConnector.connector {
  // HTTP/1.1 alone: each call has a connection to itself, so that a cut ends no other one, and it shows
  // on the socket when the kernel has all of a body.
  const connect = buildConnector({
    timeout: timeoutMs,
    allowH2: false,
    lookup: guardedLookup(network, lookup),
  });
  return (place, callback) => {
    const reach = reachOfHost(place.hostname);
    // Asynchronously, like every other outcome: undici does not expect a synchronous callback.
    if (reach !== null && !mayConnect(reach, network))
      return queueMicrotask(() => callback(new ForbiddenAddress(reach), null));
    connect(place, (...outcome) => {
      const [error, socket] = outcome;
      if (error) return callback(error, null);
      const farEnd = reachOf(socket.remoteAddress ?? '');
      if (mayConnect(farEnd, network)) return callback(null, socket);
      socket.on('error', () => undefined).destroy();
      callback(new ForbiddenAddress(farEnd), null);
    });
  };
}

/**
 * The same connector, which also reports failures.
 * @param onFailure with the name and port of the upstream.
 */
export function reportingConnector(
  connect: buildConnector.connector,
  onFailure: (host: string, error: Error) => void,
): buildConnector.connector {
  return (place, callback) =>
    connect(place, (...outcome) => {
      const [error] = outcome;
      if (error)
        onFailure(`${place.hostname}:${place.port || (place.protocol === 'https:' ? 443 : 80)}`, error);
      callback(...outcome);
    });
}

function guardedLookup(network: Network, lookup: LookUp): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '', 0);
      const allowed = found.filter(({ address }) => mayConnect(reachOf(address), network));
      const [first] = allowed;
      if (!first)
        return callback(
          new ForbiddenAddress(
            found.some(({ address }) => reachOf(address) === 'private') ? 'private' : 'never',
          ),
          '',
          0,
        );
      return options.all === true ? callback(null, allowed) : callback(null, first.address, first.family);
    });
  };
}

import { type LookupAddress, lookup as lookUp, type LookupOptions } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { buildConnector } from 'undici';
import { type Reach, reachOf, reachOfHost } from '#db/addresses.ts';
import { mayConnect, type Network } from '#server/upstreams/addresses.ts';

/**
 * How connections to an upstream are made, and where they may lead. A name is looked up once for each
 * connection, all of its addresses are judged, and only those that passed are connected to: there is
 * no second look-up that could answer otherwise. An address in the URL itself never comes by a look-up,
 * so it is judged before, and the far end of what was connected is judged once more.
 */

/** The upstream may not be where it is. The message names no place: clients' errors may be made of it. */
export class ForbiddenAddress extends Error {
  override name = 'ForbiddenAddress';
  readonly code = 'address_refused';
  /** `private`: its terms could allow it. */
  readonly reach: Reach;
  constructor(reach: Reach) {
    super(
      reach === 'private'
        ? 'The upstream is in a private network, which its terms do not allow.'
        : 'The upstream has an address that nothing is ever sent to.',
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
  /** For all of a connection: look-up, TCP and TLS. */
  timeoutMs: number;
  lookup?: LookUp;
};

/**
 * Makes connections for undici's `connect` option. They end in {@link ForbiddenAddress} where they may not
 * lead.
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
    // In a turn of its own, as with every other outcome: undici is not ready for an answer at once.
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

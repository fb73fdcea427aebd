import { lookup } from 'node:dns';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { BlockList, isIP, type LookupFunction } from 'node:net';

/**
 * Sending to an address that somebody has configured, from within the operator's network. Where the
 * connection really leads is judged, after the name was looked up and for the addresses that are then
 * connected to, so that a name that changes its mind gains nothing.
 */

/** Never: metadata services of clouds, what is on the same wire, and what is no single machine. */
const NEVER = addresses([
  '0.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '240.0.0.0/4',
  '100.100.100.200/32', '168.63.129.16/32', '192.0.0.192/32',
  '::/128', 'fe80::/10', 'ff00::/8', 'fd00:ec2::254/128', 'fd20:ce::254/128',
  // The first of them again as other networks spell it: NAT64 and 6to4.
  '64:ff9b::a9fe:0/112', '2002:a9fe::/32',
]);
/** This machine, private networks, and what may lead into them. */
const PRIVATE = addresses([
  '127.0.0.0/8', '10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', '100.64.0.0/10', '198.18.0.0/15', '192.0.0.0/24',
  '::1/128', 'fc00::/7', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16', '2001::/32',
]);

function addresses(networks: readonly string[]): BlockList {
  const list = new BlockList();
  for (const network of networks) {
    const [address = '', prefix] = network.split('/');
    list.addSubnet(address, Number(prefix), isIP(address) === 6 ? 'ipv6' : 'ipv4');
  }
  return list;
}

/** Whether a receiver may be at this address. IPv4 addresses written as IPv6 ones are judged as what they are. */
export function mayReceive(address: string, allowPrivate: boolean): boolean {
  const version = isIP(address);
  if (version === 0) return false;
  const family = version === 6 ? 'ipv6' : 'ipv4';
  return !NEVER.check(address, family) && (allowPrivate || !PRIVATE.check(address, family));
}

class RefusedAddressError extends Error {
  readonly code = 'address_refused';
}

function guardedLookup(allowPrivate: boolean): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '', 0);
      const [first] = found;
      if (!first || !found.every(({ address }) => mayReceive(address, allowPrivate))) {
        return callback(new RefusedAddressError(), '', 0);
      }
      return options.all === true ? callback(null, found) : callback(null, first.address, first.family);
    });
  };
}

/** The status that a receiver replied with, or why there is none: an error's code. */
export type Reply = { status: number } | { fault: string };

export type Message = {
  url: string;
  headers: Record<string, string>;
  body: string;
  allowPrivate: boolean;
  timeoutMs: number;
  /** Gives up for a reason of ours. */
  signal: AbortSignal;
};

/**
 * Posts a message and waits for the status, no longer than `timeoutMs` in all. Redirects are not
 * followed, and of the reply nothing else is read.
 * @throws {Error} only when `signal` has aborted it: then nobody knows whether it was received.
 */
export async function post({ url, headers, body, allowPrivate, timeoutMs, signal }: Message): Promise<Reply> {
  const target = new URL(url);
  const host = target.hostname.replace(/^\[|\]$/g, '');
  // An address needs no look-up, so it would not be judged there.
  if (isIP(host) !== 0 && !mayReceive(host, allowPrivate)) return { fault: 'address_refused' };
  return new Promise((resolve, reject) => {
    const send = target.protocol === 'https:' ? httpsRequest : httpRequest;
    const sent = send(target, {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      lookup: guardedLookup(allowPrivate),
      // A connection of its own: deliveries are rare, and none is to be sent over what another left.
      agent: false,
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), signal]),
    });
    sent.once('response', (reply) => {
      resolve({ status: reply.statusCode ?? 0 });
      reply.on('error', () => undefined);
      sent.destroy();
    });
    sent.on('error', (error: NodeJS.ErrnoException) => (signal.aborted ? reject(error) : resolve({ fault: faultOf(error) })));
    sent.end(body);
  });
}

const FAULT = /^[A-Za-z0-9_]{1,64}$/;

/** Never an error's message, which may repeat the address. */
function faultOf(error: NodeJS.ErrnoException): string {
  // The other reason to abort is no fault.
  if (error.name === 'AbortError' || error.name === 'TimeoutError') return 'timed_out';
  return typeof error.code === 'string' && FAULT.test(error.code) ? error.code : 'failed';
}

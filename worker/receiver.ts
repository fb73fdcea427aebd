import { lookup } from 'node:dns';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { type Reach, reachOf, reachOfHost } from '#db/addresses.ts';

/**
 * Sending to an address that somebody has configured, from within the operator's network. Where the
 * connection really leads is judged, after the name was looked up and for the addresses that are then
 * connected to, so that a name that changes its mind gains nothing.
 */

/** Whether a receiver may be where an address leads. */
function mayReceive(reach: Reach, allowPrivate: boolean): boolean {
  return reach === 'public' || (reach === 'private' && allowPrivate);
}

class RefusedAddressError extends Error {
  readonly code = 'address_refused';
}

function guardedLookup(allowPrivate: boolean): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error) return callback(error, '', 0);
      const [first] = found;
      if (!first || !found.every(({ address }) => mayReceive(reachOf(address), allowPrivate))) {
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
  // An address needs no look-up, so it would not be judged there.
  const reach = reachOfHost(target.hostname);
  if (reach !== null && !mayReceive(reach, allowPrivate)) return { fault: 'address_refused' };
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
    sent.on('error', (error: NodeJS.ErrnoException) =>
      signal.aborted ? reject(error) : resolve({ fault: faultOf(error) }),
    );
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

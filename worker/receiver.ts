import { lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { type Reach, reachOf, reachOfHost } from '#db/addresses.ts';
import { http } from '#db/node-http.ts';

/**
 * Sends to a configured address from within the operator's network, guarded against server-side
 * request forgery: the resolved addresses are checked, and exactly those are connected to, so that
 * DNS rebinding gains nothing.
 */

/** Whether a receiver may have an address of this reach. */
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

/** The status of a receiver's response, or the code of the error. */
export type Reply = { status: number } | { fault: string };

export type Message = {
  url: string;
  headers: Record<string, string>;
  body: string;
  allowPrivate: boolean;
  timeoutMs: number;
  /** Aborts for a reason of the worker's own. */
  signal: AbortSignal;
};

/**
 * Posts a message and waits for the status, for at most `timeoutMs` in total. Redirects are not
 * followed, and nothing else of the response is read.
 * @throws {Error} only when `signal` has aborted: it is then unknown whether the message was received.
 */
export async function post({ url, headers, body, allowPrivate, timeoutMs, signal }: Message): Promise<Reply> {
  const target = new URL(url);
  // A literal address is not resolved, so the lookup would not check it.
  const reach = reachOfHost(target.hostname);
  if (reach !== null && !mayReceive(reach, allowPrivate)) return { fault: 'address_refused' };
  return new Promise((resolve, reject) => {
    // Most workers never need it.
    const { request } = target.protocol === 'https:' ? process.getBuiltinModule('node:https') : http;
    const sent = request(target, {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      lookup: guardedLookup(allowPrivate),
      // A new connection for each delivery: they are rare, and must not share a connection.
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

/** The error's code; its message may contain the address. */
function faultOf(error: NodeJS.ErrnoException): string {
  // An abort by `signal` was handled before.
  if (error.name === 'AbortError' || error.name === 'TimeoutError') return 'timed_out';
  return typeof error.code === 'string' && FAULT.test(error.code) ? error.code : 'failed';
}

import { lookup } from 'node:dns';
import type { Agent } from 'node:http';
import type { LookupFunction } from 'node:net';
import { type Reach, reachOf, reachOfHost } from '#db/addresses.ts';
import { http } from '#db/node-http.ts';

/**
 * Sends to a configured address from within the operator's network, guarded against server-side
 * request forgery: the resolved addresses are checked, and exactly those are connected to, so that
 * DNS rebinding gains nothing.
 */

/** Whether a receiver may have an address of this reach. */
export function mayReceive(reach: Reach, allowPrivate: boolean): boolean {
  return reach === 'public' || (reach === 'private' && allowPrivate);
}

export class RefusedAddressError extends Error {
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

/** A receiver's response, its body as far as it was asked for, or the code of the error. */
export type Reply = { status: number; body: string } | { fault: string };

export type Message = {
  url: string;
  headers: Record<string, string>;
  body: string;
  allowPrivate: boolean;
  timeoutMs: number;
  /** Aborts for a reason of the worker's own. */
  signal: AbortSignal;
  /** Keeps connections for further messages of the same sender; absent: a new connection for each. */
  agent?: Agent;
  /** How much of the response's body is read; absent: nothing. */
  replyBytesMax?: number;
};

/**
 * Posts a message and waits for the status and, where it is asked for, the body, for at most `timeoutMs` in
 * total. Redirects are not followed.
 * @throws {Error} only when `signal` has aborted: it is then unknown whether the message was received.
 */
export async function post({
  url,
  headers,
  body,
  allowPrivate,
  timeoutMs,
  signal,
  agent,
  replyBytesMax,
}: Message): Promise<Reply> {
  const target = new URL(url);
  // A literal address is not resolved, so the lookup would not check it.
  const reach = reachOfHost(target.hostname);
  if (reach !== null && !mayReceive(reach, allowPrivate)) return { fault: 'address_refused' };
  return new Promise<Reply>((resolve, reject) => {
    // Most workers never need it.
    const { request } = target.protocol === 'https:' ? process.getBuiltinModule('node:https') : http;
    const sent = request(target, {
      method: 'POST',
      headers: { ...headers, 'content-length': Buffer.byteLength(body) },
      lookup: guardedLookup(allowPrivate),
      // Rare deliveries must not share a connection.
      agent: agent ?? false,
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), signal]),
    });
    sent.once('response', (reply) => {
      const status = reply.statusCode ?? 0;
      if (replyBytesMax === undefined) {
        resolve({ status, body: '' });
        reply.on('error', () => undefined);
        sent.destroy();
      } else readBody(reply, replyBytesMax).then((text) => resolve({ status, body: text }), reject);
    });
    sent.on('error', reject);
    sent.end(body);
  }).catch((error: NodeJS.ErrnoException) => {
    if (signal.aborted) throw error;
    return { fault: faultOf(error) };
  });
}

/** The beginning of a body. The connection can be used again where the whole body was read. */
async function readBody(reply: AsyncIterable<Buffer>, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of reply) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= bytesMax) break;
  }
  return Buffer.concat(chunks).subarray(0, bytesMax).toString();
}

const FAULT = /^[A-Za-z0-9_]{1,64}$/;

/** The error's code; its message may contain the address. */
function faultOf(error: NodeJS.ErrnoException): string {
  // An abort by `signal` was handled before.
  if (error.name === 'AbortError' || error.name === 'TimeoutError') return 'timed_out';
  return typeof error.code === 'string' && FAULT.test(error.code) ? error.code : 'failed';
}

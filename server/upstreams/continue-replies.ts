import { subscribe } from 'node:diagnostics_channel';

/**
 * Lets upstreams send `100 Continue` unasked, as RFC 9110 allows: undici takes it for a broken connection.
 * Its parser is found on the first connection, and reads the status as another informational one, which is
 * ignored. test/layout/vendor-internals.test.ts fails when undici changes.
 */

const CONTINUE = 100;
const PROCESSING = 102;

type Parser = { onHeadersComplete(status: number, ...more: unknown[]): unknown };

let isSubscribed = false;

/** Takes effect from the next connection on; calling it again changes nothing. */
export function acceptContinueReplies(): void {
  if (isSubscribed) return;
  isSubscribed = true;
  const patched = new WeakSet<Parser>();
  subscribe('undici:client:connected', (message) => {
    const { socket } = message as { socket: Record<symbol, Parser | undefined> };
    const symbol = Object.getOwnPropertySymbols(socket).find(({ description }) => description === 'parser');
    const prototype = symbol && (Object.getPrototypeOf(socket[symbol] ?? {}) as Parser);
    if (!prototype || patched.has(prototype) || typeof prototype.onHeadersComplete !== 'function') return;
    patched.add(prototype);
    const { onHeadersComplete } = prototype;
    prototype.onHeadersComplete = function onHeaders(status, ...more) {
      return onHeadersComplete.call(this, status === CONTINUE ? PROCESSING : status, ...more);
    };
  });
}

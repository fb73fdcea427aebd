import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { ApiError } from '#server/errors/api-error.ts';
import { endLingering } from '#server/http/lingering-close.ts';
import { bareRefusal } from '#server/relay/reply.ts';

/** Whether a request asks for a WebSocket. Other upgrades, such as to HTTP/2, are ignored, as HTTP allows. */
export function isWebSocket({ method, headers }: IncomingMessage): boolean {
  return method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket';
}

/** The same, also where a front has removed the upgrade, which concerns its own connection only. */
export const asksForWebSocket = (request: IncomingMessage): boolean =>
  isWebSocket(request) || (request.method === 'GET' && 'sec-websocket-key' in request.headers);

/** How long a client may take to answer the end of its connection. The types of `ws` don't name this. */
export const closeTimeout = (ms: number): object => ({ closeTimeout: ms });

/** Replies to a handshake with an error, and closes its connection. */
export function refuseHandshake(socket: Duplex, refusal: ApiError, requestId: string): void {
  endLingering(socket, bareRefusal(refusal, requestId));
}

/** Checks the handshake here, for an error in our format. */
export function checkHandshake({ headers }: IncomingMessage): ApiError | null {
  const isWhole =
    headers['sec-websocket-version'] === '13' &&
    /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '');
  if (isWhole) return null;
  return new ApiError('bad_request', {
    message: 'A WebSocket handshake needs Sec-WebSocket-Version: 13 and a Sec-WebSocket-Key.',
    headers: ['sec-websocket-version', '13'],
  });
}

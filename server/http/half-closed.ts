import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { HALF_CLOSED_FIRST_PROBES_MS, HALF_CLOSED_LATER_PROBES_MS } from '#server/http/bounds.ts';
import { onlyReplyOf } from '#server/http/pipeline.ts';

/** Responses to clients that may have left, and when their first probes are through. */
const probing = new WeakMap<object, Promise<void>>();

/**
 * Clients whose sending side has ended. A FIN comes from most clients that leave, and from one that has only
 * shut down its sending side and waits for its reply (`printf … | nc -N`). Until the head of the reply is
 * sent, interim responses distinguish them, which HTTP/1.1 clients ignore: the host of a client that has left
 * resets the connection. Where no interim response can be sent, the client counts as disconnected: in
 * HTTP/1.0, in the middle of a reply, and with more than one request under way.
 */
export function serveHalfClosed(server: Server): void {
  // Otherwise Node ends the connection at a FIN, whatever is still to be sent.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  for (const event of ['connection', 'secureConnection'])
    server.on(event, (socket: Socket) => socket.on('end', () => sendingSideEnded(socket)));
}

/**
 * Set while the client of a response may have left: resolves when its connection is destroyed if a client of
 * a near network has. Nothing that costs is begun meanwhile.
 */
export function whenProbed(response: object): Promise<void> | undefined {
  return probing.get(response);
}

function sendingSideEnded(socket: Socket): void {
  const response = onlyReplyOf(socket);
  if (response === 'none' || (response !== 'several' && response.writableEnded)) return;
  if (response === 'several' || response.headersSent || response.req.httpVersion === '1.0') {
    socket.destroy();
    return;
  }
  response.shouldKeepAlive = false;
  probing.set(response, probe(response));
}

async function probe(response: ServerResponse): Promise<void> {
  await send(response, HALF_CLOSED_FIRST_PROBES_MS);
  // A failed write closes the connection at the end of a turn of the event loop.
  await nextTurn();
  await nextTurn();
  probing.delete(response);
  void send(response, HALF_CLOSED_LATER_PROBES_MS);
}

async function send(response: ServerResponse, pausesMs: readonly number[]): Promise<void> {
  for (const pauseMs of pausesMs) {
    if (pauseMs > 0) await sleep(pauseMs, undefined, { ref: false });
    if (response.headersSent || response.destroyed) return;
    response.writeProcessing();
  }
}

import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex, Readable } from 'node:stream';
import { LINGER_BYTES_MAX, LINGER_IDLE_MS, LINGER_MS } from '#server/http/bounds.ts';

/**
 * Lingering close. A connection that is closed with unread bytes is reset, and the reset overtakes the reply:
 * the client never learns why it was refused. So the reply is followed by a half-close, what the client still
 * sends is read and discarded up to a bound, and only then the connection is closed.
 */

/**
 * Ends a connection without a response object with these bytes, and closes it lingering.
 * @param idleMs for which its client may send nothing.
 */
export function endLingering(socket: Duplex, bytes: string, idleMs = LINGER_IDLE_MS): void {
  socket.end(bytes);
  discardInput(socket);
  limitTime(socket as Socket, idleMs);
}

/**
 * Serves no further request of a connection: what its client still sends is discarded, and it is closed
 * lingering after the reply that closes it. Replies before that one end as usual, unless the client leaves.
 */
export function closeAfterReplies(socket: Socket): void {
  // The parser may be at work on the bytes that it has.
  process.nextTick(discardInput, socket);
  closeSlowly(socket);
}

/** Takes a connection's input away from its parser, which has failed or is not to go on. */
function discardInput(socket: Duplex): void {
  socket.removeAllListeners('data');
  socket.on('error', () => socket.destroy());
  discard(socket);
}

/** Reads and discards the rest of the input, up to the bound. */
function discard(input: Readable): void {
  let discarded = 0;
  input.on('data', (chunk: Buffer) => {
    discarded += chunk.length;
    if (discarded > LINGER_BYTES_MAX) input.destroy();
  });
  input.resume();
}

/**
 * Discards the rest of a refused request, so that the client receives its reply. Called before the reply is
 * ended. A connection that can be kept serves the next request afterwards; another one is closed lingering.
 */
export function discardRest(request: IncomingMessage): void {
  if (request.complete) return;
  request.on('error', () => {});
  discard(request);
  closeSlowly(request.socket);
}

/** Node calls `destroySoon` after the last reply of a connection, and would close it at once. */
function closeSlowly(socket: Socket): void {
  socket.destroySoon = () => {
    socket.end();
    limitTime(socket);
  };
}

function limitTime(socket: Socket, idleMs = LINGER_IDLE_MS): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
  socket.once('close', () => clearTimeout(timer));
  socket.once('end', () => socket.destroy());
  // Node's own listener would destroy it.
  socket.removeAllListeners('timeout');
  socket.setTimeout(idleMs);
  socket.on('timeout', () => {
    // After a pause of this process bytes may have been received that are not read yet.
    const { bytesRead } = socket;
    setImmediate(() => {
      if (socket.bytesRead === bytesRead) socket.destroy();
    });
  });
}

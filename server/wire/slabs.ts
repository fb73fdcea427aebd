import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import { SLAB_BYTES, SLABS_KEPT_MAX } from '#server/wire/bounds.ts';

/**
 * Recycled memory for large request bodies. A fresh buffer for each would make V8 collect all garbage
 * after every 64 MB of them, at a cost that grows with the number of active keys.
 *
 * A slab may only be reused when nothing can read it any more. The upstream may reply before it has
 * received the whole body, so the end of the reply proves nothing: a released slab is dropped unless each
 * connection that it was written to has handed every byte to the kernel. undici announces those
 * connections on a diagnostics channel, which is subscribed to before the first slab is handed out.
 */

/** Unused bytes kept behind a body in its slab, so that splice-body.ts can append there without a copy. */
export const SLACK_BYTES = 128;

const free: Buffer[] = [];
/** The connections that a slab was written to, one for each attempt, by the slab's memory. */
const writtenTo = new WeakMap<ArrayBufferLike, Socket[]>();
let isTracking = false;

/** Memory for a body of `length` bytes: a slab, or a buffer of its own where the body exceeds one. */
export function acquireSlab(length: number): Buffer {
  trackWrites();
  if (length + SLACK_BYTES > SLAB_BYTES) return Buffer.allocUnsafeSlow(length + SLACK_BYTES);
  return free.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
}

export const isSlab = (buffer: Buffer): boolean => buffer.length === SLAB_BYTES;

/** Returns a slab for reuse, unless its bytes may still be on their way to an upstream. */
export function releaseSlab(slab: Buffer): void {
  const sockets = writtenTo.get(slab.buffer) ?? [];
  writtenTo.delete(slab.buffer);
  const isInFlight = sockets.some((socket) => socket.destroyed || socket.writableLength > 0);
  if (free.length < SLABS_KEPT_MAX && !isInFlight) free.push(slab);
}

function trackWrites(): void {
  if (isTracking) return;
  isTracking = true;
  subscribe('undici:client:sendHeaders', (message) => {
    const { request, socket } = message as { request: { body?: unknown }; socket: Socket };
    if (!Buffer.isBuffer(request.body) || request.body.buffer.byteLength !== SLAB_BYTES) return;
    const sockets = writtenTo.get(request.body.buffer);
    if (sockets) sockets.push(socket);
    else writtenTo.set(request.body.buffer, [socket]);
  });
}

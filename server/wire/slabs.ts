import { subscribe } from 'node:diagnostics_channel';
import type { Socket } from 'node:net';
import {
  REGION_BYTES_MIN,
  SLAB_BYTES_MAX,
  SLAB_BYTES_MIN,
  SLAB_FROM_BYTES,
  SLABS_KEPT_BYTES_MAX,
  SLABS_TRIM_MS,
} from '#server/wire/bounds.ts';

/**
 * Recycled memory for large bodies and replies. A fresh buffer for each would make V8 collect all garbage
 * after every 64 MB of them, at a cost that grows with the number of active keys. And garbage that is not
 * collected stays with the process: of 1.8 GB that clients had left behind, nothing had been returned 20 s
 * later.
 *
 * Slabs have fixed sizes and are kept for reuse, up to a bound and for as long as they are needed. Whatever
 * exceeds the largest slab gets a *region*, which is freed when it is released, without waiting for a
 * collection.
 *
 * Memory may only be reused or freed when nothing can read it any more. The upstream may reply before it has
 * received the whole body, so the end of the reply proves nothing: released memory is left to the collector
 * unless each connection that it was written to has handed every byte to the kernel. undici announces those
 * connections on a diagnostics channel, which is subscribed to before the first slab is handed out.
 */

/** Unused bytes kept behind a body in its slab, so that splice-body.ts can append there without a copy. */
export const SLACK_BYTES = 128;

/** The free slabs of one size, and how many of them were not needed since the last trim. */
type FreeList = { slabs: Buffer[]; unused: number };

const free = new Map<number, FreeList>();
let keptBytes = 0;
let trimming: NodeJS.Timeout | undefined;
/** All memory handed out here, so that other buffers are not tracked. */
const owned = new WeakSet<ArrayBufferLike>();
/** The connections that a slab was written to, one for each attempt, by the slab's memory. */
const writtenTo = new WeakMap<ArrayBufferLike, Socket[]>();
let isTracking = false;

/** Memory for a body of `length` bytes: a slab, or a region where the body exceeds the largest slab. */
export function acquireSlab(length: number): Buffer {
  trackWrites();
  const size = sizeFor(length);
  const list = free.get(size);
  const kept = list?.slabs.pop();
  if (list && kept) {
    keptBytes -= size;
    list.unused = Math.min(list.unused, list.slabs.length);
    return kept;
  }
  const slab = Buffer.allocUnsafeSlow(size);
  owned.add(slab.buffer);
  return slab;
}

/** Bytes of memory that a body of `length` bytes takes; of a region, only the touched part counts. */
export function bytesHeldFor(length: number): number {
  if (length <= SLAB_FROM_BYTES) return length;
  const size = sizeFor(length);
  return size <= SLAB_BYTES_MAX ? size : Math.ceil(length / SLAB_BYTES_MAX) * SLAB_BYTES_MAX;
}

/** Reuses or frees a slab, unless its bytes may still be on their way to an upstream. */
export function releaseSlab(slab: Buffer): void {
  const sockets = writtenTo.get(slab.buffer) ?? [];
  writtenTo.delete(slab.buffer);
  if (sockets.some((socket) => socket.destroyed || socket.writableLength > 0)) return;
  const size = slab.length;
  if (size > SLAB_BYTES_MAX || keptBytes + size > SLABS_KEPT_BYTES_MAX) return freeMemory(slab);
  let list = free.get(size);
  if (!list) free.set(size, (list = { slabs: [], unused: 0 }));
  list.slabs.push(slab);
  keptBytes += size;
  trimming ??= setInterval(trimSlabs, SLABS_TRIM_MS).unref();
}

/** Bytes of free slabs that are kept for reuse. */
export const keptSlabBytes = (): number => keptBytes;

/** Frees the slabs that were not needed since the last trim. */
export function trimSlabs(): void {
  for (const [size, list] of free) {
    for (const slab of list.slabs.splice(0, list.unused)) {
      keptBytes -= size;
      freeMemory(slab);
    }
    list.unused = list.slabs.length;
  }
  if (keptBytes > 0) return;
  clearInterval(trimming);
  trimming = undefined;
}

/** Moves the memory into an empty buffer, which frees it at once. */
function freeMemory(slab: Buffer): void {
  (slab.buffer as ArrayBuffer).transfer(0);
}

function sizeFor(length: number): number {
  const needed = length + SLACK_BYTES;
  if (needed > SLAB_BYTES_MAX) return Math.max(needed, REGION_BYTES_MIN);
  let size = SLAB_BYTES_MIN;
  while (size < needed) size *= 2;
  return size;
}

function trackWrites(): void {
  if (isTracking) return;
  isTracking = true;
  subscribe('undici:client:sendHeaders', (message) => {
    const { request, socket } = message as { request: { body?: unknown }; socket: Socket };
    if (!Buffer.isBuffer(request.body) || !owned.has(request.body.buffer)) return;
    const sockets = writtenTo.get(request.body.buffer);
    if (sockets) sockets.push(socket);
    else writtenTo.set(request.body.buffer, [socket]);
  });
}

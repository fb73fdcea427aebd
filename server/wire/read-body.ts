import type { IncomingMessage, ServerResponse } from 'node:http';
import { SLAB_FROM_BYTES } from '#server/wire/bounds.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { acquireSlab, isSlab, releaseSlab } from '#server/wire/slabs.ts';

/** A request's body, received completely. */
export type Body = {
  /** The bytes as received; while they are changed in place for an upstream, see `restoreBody`. */
  bytes: Buffer;
  /** The recycled memory that holds the bytes; null: a buffer of their own. */
  slab: Buffer | null;
  /** A second slab, for the body that goes to an upstream when members in the middle change. */
  copy?: Buffer;
  /** The end of the bytes before additions were written over it. */
  overwritten?: { at: number; bytes: Buffer };
};

/** The client disconnected before its body was complete. */
export class ClientDisconnected extends Error {
  override name = 'ClientGone';
}

/**
 * Receives the body. Nothing is read before this call, so a rejected request never pays for its upload.
 * @returns `request_too_large` when the body exceeds `maxBytes`.
 * @throws {ClientDisconnected} when the client disconnects in the middle.
 */
export function readBody(
  request: IncomingMessage,
  response: ServerResponse,
  maxBytes: number,
): Promise<Body | ApiError> {
  const declared = request.headers['content-length'];
  const length = declared === undefined ? undefined : Number(declared);
  if (length !== undefined && length > maxBytes) return Promise.resolve(tooLarge(maxBytes));
  if (request.headers.expect !== undefined) response.writeContinue();
  return new Promise((resolve, reject) => {
    const slab = length !== undefined && length > SLAB_FROM_BYTES ? acquireSlab(length) : null;
    let first: Buffer | null = null;
    let more: Buffer[] | null = null;
    let size = 0;
    let done = false;

    request.on('data', (chunk: Buffer) => {
      if (done) return;
      if (slab && size + chunk.length <= (length as number)) chunk.copy(slab, size);
      else if (first === null) first = chunk;
      else (more ??= [first]).push(chunk);
      size += chunk.length;
      if (size > maxBytes) {
        done = true;
        resolve(tooLarge(maxBytes));
      }
    });
    request.on('end', () => {
      if (done) return;
      done = true;
      if (slab) resolve({ bytes: slab.subarray(0, size), slab: isSlab(slab) ? slab : null });
      else resolve({ bytes: more ? Buffer.concat(more, size) : (first ?? Buffer.alloc(0)), slab: null });
    });
    const disconnected = (): void => {
      if (done) return;
      done = true;
      reject(new ClientDisconnected());
    };
    request.on('error', disconnected);
    request.on('close', disconnected);
  });
}

function tooLarge(maxBytes: number): ApiError {
  return new ApiError('request_too_large', {
    message:
      `The request body exceeds the limit of ${Math.floor(maxBytes / 1024 / 1024)} MiB. ` +
      'Send a smaller request.',
  });
}

/** Releases the memory of a body. Nothing may read the body afterwards. */
export function releaseBody(body: Body): void {
  const { slab, copy } = body;
  body.slab = null;
  delete body.copy;
  if (slab) releaseSlab(slab);
  if (copy) releaseSlab(copy);
}

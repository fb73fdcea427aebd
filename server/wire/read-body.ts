import type { IncomingMessage } from 'node:http';
import { ApiError } from '#server/errors/api-error.ts';
import { SlabCollector } from '#server/wire/slab-collector.ts';
import { bytesHeldFor, releaseSlab } from '#server/wire/slabs.ts';

/** A request's body, received completely, or its beginning. */
export type Body = {
  /** The bytes as received; while they are changed in place for an upstream, see `restoreBody`. */
  bytes: Buffer;
  /** The recycled memory that holds the bytes; null: a buffer of their own. */
  slab: Buffer | null;
  /** A second slab, for the body that goes to an upstream when members in the middle change. */
  copy?: Buffer;
  /** The end of the bytes before additions were written over it. */
  overwritten?: { at: number; bytes: Buffer };
  /** What follows the bytes; absent: they are the whole body. */
  rest?: BodyRest;
};

/** The rest of a body that streams through. It can be read once. */
export type BodyRest = {
  /** Whether nothing was read yet: until then another attempt can send the whole body. */
  readonly isUnread: boolean;
  /** Its bytes; null: the client doesn't state them. */
  readonly length: number | null;
  /** Why the rest was rejected while it was read. */
  readonly failure: ApiError | null;
  /** @param progress called with each chunk that is read. */
  watch(progress: () => void): void;
  /** @throws {Error} where it ends early or is invalid. */
  chunks(): AsyncGenerator<Buffer, void>;
  /** Discards the rest, so that the client receives its reply. */
  discard(): void;
};

export type BodyLimits = {
  maxBytes: number;
  /** Holds so many bytes in all for the body, before they are received; or refuses. */
  hold: (bytes: number) => ApiError | null;
};

/**
 * Receives the body. Nothing is read before this call, so a rejected request never pays for its upload; and
 * nothing before `hold` has agreed: to the whole body where its length is declared, else step by step.
 * @returns `request_too_large` when the body exceeds `maxBytes`, or the refusal of `hold`; null when the
 * client disconnects in the middle.
 */
export function readBody(
  request: IncomingMessage,
  response: { writeContinue(): void },
  { maxBytes, hold }: BodyLimits,
): Promise<Body | ApiError | null> {
  const declared = request.headers['content-length'];
  const length = declared === undefined ? 0 : Number(declared);
  if (length > maxBytes) return Promise.resolve(tooLarge(maxBytes));
  let heldBytes = bytesHeldFor(length);
  const refusal = hold(heldBytes);
  if (refusal) return Promise.resolve(refusal);
  if (request.headers.expect !== undefined) response.writeContinue();
  return new Promise((resolve) => {
    const collector = new SlabCollector(maxBytes, length);
    let done = false;

    const refuse = (problem: ApiError): void => {
      done = true;
      collector.release();
      resolve(problem);
    };
    request.on('data', (chunk: Buffer) => {
      if (done) return;
      const size = collector.size + chunk.length;
      if (size > maxBytes) return refuse(tooLarge(maxBytes));
      const needed = bytesHeldFor(size);
      const problem = needed > heldBytes ? hold(needed) : null;
      if (problem) return refuse(problem);
      heldBytes = Math.max(heldBytes, needed);
      collector.push(chunk);
    });
    request.on('end', () => {
      if (done) return;
      done = true;
      resolve(collector.take());
    });
    const disconnected = (): void => {
      if (done) return;
      done = true;
      collector.release();
      resolve(null);
    };
    request.on('error', disconnected);
    request.on('close', disconnected);
  });
}

export function tooLarge(maxBytes: number): ApiError {
  return new ApiError('request_too_large', {
    message:
      `The request body exceeds the limit of ${Math.floor(maxBytes / 1024 / 1024)} MiB. ` +
      'Send a smaller request.',
  });
}

const RELEASED = Buffer.alloc(0);

/** Releases the memory of a body. Nothing may read the body afterwards. */
export function releaseBody(body: Body): void {
  const { slab, copy } = body;
  body.bytes = RELEASED;
  body.slab = null;
  delete body.copy;
  if (slab) releaseSlab(slab);
  if (copy) releaseSlab(copy);
}

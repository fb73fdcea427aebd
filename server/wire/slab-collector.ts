import { SLAB_BYTES_MAX, SLAB_FROM_BYTES } from '#server/wire/bounds.ts';
import { ByteCollector } from '#server/wire/byte-collector.ts';
import { acquireSlab, bytesHeldFor, releaseSlab, SLACK_BYTES } from '#server/wire/slabs.ts';

const NO_BYTES = Buffer.alloc(0);

/** The bytes of a whole message; `slab` is the recycled memory that holds them, null for their own buffer. */
export type Collected = { bytes: Buffer; slab: Buffer | null };

/**
 * Collects a message of up to `maxBytes` bytes that is received in chunks: a small one in a buffer of its
 * own, a larger one in a slab that grows with it.
 */
export class SlabCollector {
  readonly #maxBytes: number;
  readonly #small = new ByteCollector();
  #slab: Buffer | null = null;
  #size = 0;

  /** @param expected the length, where it is known in advance. */
  constructor(maxBytes: number, expected = 0) {
    this.#maxBytes = maxBytes;
    if (expected > SLAB_FROM_BYTES) this.#slab = acquireSlab(expected);
  }

  get size(): number {
    return this.#size;
  }

  /** Bytes of memory that the message uses so far. */
  get heldBytes(): number {
    return bytesHeldFor(this.#size);
  }

  /** The caller has checked that the message stays within its bound. */
  push(chunk: Buffer): void {
    const size = this.#size + chunk.length;
    if (this.#slab ? size + SLACK_BYTES > this.#slab.length : size > SLAB_FROM_BYTES) this.#grow(size);
    if (this.#slab) chunk.copy(this.#slab, this.#size);
    else this.#small.push(chunk);
    this.#size = size;
  }

  /** Removes the message. It is the caller's from now on, and so is its slab. */
  take(): Collected {
    const slab = this.#slab;
    const bytes = slab ? slab.subarray(0, this.#size) : (this.#small.take() ?? NO_BYTES);
    this.#slab = null;
    this.#size = 0;
    return { bytes, slab };
  }

  /** Drops the message. */
  release(): void {
    const { slab } = this.take();
    if (slab) releaseSlab(slab);
  }

  #grow(size: number): void {
    // A region is made for the longest message at once: its untouched pages cost nothing.
    const isRegion = size + SLACK_BYTES > SLAB_BYTES_MAX;
    const slab = acquireSlab(isRegion ? Math.max(size, this.#maxBytes) : size);
    const before = this.#slab?.subarray(0, this.#size) ?? this.#small.take();
    before?.copy(slab);
    if (this.#slab) releaseSlab(this.#slab);
    this.#slab = slab;
  }
}

import { MEDIA_HEAD_BYTES, MEDIA_TAIL_BYTES } from '#server/media/bounds.ts';
import { mediaDuration } from '#server/media/duration.ts';

const NO_BYTES = Buffer.alloc(0);

/** Keeps the beginning and the end of a recording that passes, for its length. */
export class MediaProbe {
  #head: Buffer | null = null;
  /** The last bytes, with up to as many before them: they are cut once in so many. */
  #tail: Buffer[] = [];
  #tailBytes = 0;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(bytes: Buffer): void {
    this.#head ??= Buffer.alloc(MEDIA_HEAD_BYTES);
    if (this.#size < MEDIA_HEAD_BYTES) bytes.copy(this.#head, this.#size);
    this.#size += bytes.length;
    const last = bytes.subarray(Math.max(0, bytes.length - MEDIA_TAIL_BYTES));
    // A copy: the chunk is larger, and its memory may be reused.
    this.#tail.push(Buffer.from(last));
    this.#tailBytes += last.length;
    if (this.#tailBytes > 2 * MEDIA_TAIL_BYTES || this.#tail.length > PIECES_MAX) this.#cut();
  }

  /**
   * Its length in milliseconds.
   * @param size of the whole recording, where it is known before its end has passed.
   */
  durationMs(size = this.#size): number {
    this.#cut();
    const head = this.#head?.subarray(0, this.#size) ?? NO_BYTES;
    return mediaDuration({ head, tail: this.#tail[0] ?? NO_BYTES, size });
  }

  #cut(): void {
    const joined = Buffer.concat(this.#tail);
    this.#tail = [Buffer.from(joined.subarray(Math.max(0, joined.length - MEDIA_TAIL_BYTES)))];
    this.#tailBytes = this.#tail[0]?.length ?? 0;
  }
}

/** Small pieces would cost more than their bytes. */
const PIECES_MAX = 128;

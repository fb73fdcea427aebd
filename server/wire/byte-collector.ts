/** The memory that bytes are collected in at first; it doubles as they grow. */
const COLLECTED_BYTES_MIN = 4 * 1024;

/**
 * Collects bytes that are received in pieces. Each byte is copied a bounded number of times, and the memory
 * is at most about twice the bytes, however small the pieces are: as a list, each would cost a hundred bytes.
 */
export class ByteCollector {
  #bytes: Buffer | null = null;
  #length = 0;

  /** A single piece is kept as it is, and must not change afterwards. */
  push(piece: Buffer): void {
    if (piece.length === 0) return;
    const length = this.#length + piece.length;
    if (this.#bytes === null) this.#bytes = piece;
    else {
      if (length > this.#bytes.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(2 * length, COLLECTED_BYTES_MIN));
        this.#bytes.copy(larger, 0, 0, this.#length);
        this.#bytes = larger;
      }
      piece.copy(this.#bytes, this.#length);
    }
    this.#length = length;
  }

  get length(): number {
    return this.#length;
  }

  /** Removes the bytes collected so far. @returns null: the collector is empty. */
  take(): Buffer | null {
    const bytes = this.#bytes;
    const length = this.#length;
    this.#bytes = null;
    this.#length = 0;
    return bytes === null || bytes.length === length ? bytes : bytes.subarray(0, length);
  }
}

/** Rows are stored in chunks of this size. A chunk is freed when none of its rows is referenced. */
const CHUNK_BYTES = 64 * 1024;

/** An arena for rows: few large chunks instead of a buffer per row. */
export class Arena {
  /** The newest chunk, and the number of bytes used. */
  bytes = Buffer.alloc(0);
  filled = 0;

  /** Ensures space for `bytes` after the used ones. */
  reserve(bytes: number): void {
    if (this.filled + bytes <= this.bytes.length) return;
    this.bytes = Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, bytes));
    this.filled = 0;
  }
}

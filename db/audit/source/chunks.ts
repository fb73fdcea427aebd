/** Rows lie in pieces of this size, each of which stays as long as one of its rows does. */
const PIECE_BYTES = 64 * 1024;

/** Room for rows that stay: one behind the other in few large pieces. */
export class Chunks {
  /** The newest piece, and how much of it is filled. */
  bytes = Buffer.alloc(0);
  filled = 0;

  /** Makes room for so many bytes behind what is filled. */
  reserve(bytes: number): void {
    if (this.filled + bytes <= this.bytes.length) return;
    this.bytes = Buffer.allocUnsafeSlow(Math.max(PIECE_BYTES, bytes));
    this.filled = 0;
  }
}

import { ByteCollector } from '#server/wire/byte-collector.ts';

const LINE_FEED = 0x0a;

/** A line has more bytes than are held. */
export class LineTooLong extends Error {
  override name = 'LineTooLong';
}

/** Splits bytes that come in chunks into lines, without their line feeds. Holds at most one line. Pure. */
export class LineSplitter {
  readonly #bytesMax: number;
  readonly #rest = new ByteCollector();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Bytes of the line that has not ended. */
  get heldBytes(): number {
    return this.#rest.length;
  }

  /** The lines that end in a chunk. @throws {LineTooLong} */
  *push(chunk: Buffer): Generator<Buffer> {
    let from = 0;
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, from);
      const piece = chunk.subarray(from, end < 0 ? chunk.length : end);
      if (this.#rest.length + piece.length > this.#bytesMax)
        throw new LineTooLong(`a line exceeds ${this.#bytesMax} bytes`);
      if (end < 0) {
        // A copy, since the chunk's memory may be reused.
        if (piece.length > 0) this.#rest.push(Buffer.from(piece));
        return;
      }
      this.#rest.push(piece);
      yield this.#rest.take() ?? NO_BYTES;
      from = end + 1;
    }
  }

  /** The last line, where no line feed ends it; empty without one. */
  end(): Buffer {
    return this.#rest.take() ?? NO_BYTES;
  }
}

const NO_BYTES = Buffer.alloc(0);

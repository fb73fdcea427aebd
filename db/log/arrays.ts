/**
 * One-dimensional arrays in Postgres' binary format, as parameters of a query: `pg` sends a Buffer
 * as binary. Against text literals the server saves their parsing.
 *
 * Layout (`array_recv`): dimensions, has-null flag, element type, length, lower bound, each 32 bits;
 * then each element as a 32-bit byte length and its bytes.
 */

/** The types of elements and their OIDs, which never change. */
const OIDS = { bool: 16, int8: 20, int2: 21, int4: 23, text: 25 };
export type ElementType = keyof typeof OIDS;
const HEADER_BYTES = 20;
const COUNT_AT = 12;
const FIRST_BYTES = 512;

/** An array that is filled element by element. */
export class ArrayColumn {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = HEADER_BYTES;
  #count = 0;

  constructor(type: ElementType) {
    this.#bytes.writeInt32BE(1, 0);
    this.#bytes.writeInt32BE(0, 4);
    this.#bytes.writeInt32BE(OIDS[type], 8);
    this.#bytes.writeInt32BE(1, 16);
  }

  /** Empties the array for reuse. The buffer of the last `finish` must have been sent. */
  reset(): void {
    this.#at = HEADER_BYTES;
    this.#count = 0;
  }

  /** The added elements, as the parameter's value. */
  finish(): Buffer {
    this.#bytes.writeInt32BE(this.#count, COUNT_AT);
    return this.#bytes.subarray(0, this.#at);
  }

  /** @throws {RangeError} beyond 16 bits. */
  addInt2(value: number): void {
    const at = this.#element(2);
    this.#bytes.writeInt16BE(value, at);
  }

  /** @throws {RangeError} beyond 32 bits. */
  addInt4(value: number): void {
    const at = this.#element(4);
    this.#bytes.writeInt32BE(value, at);
  }

  /** A safe integer. */
  addInt8(value: number): void {
    const at = this.#element(8);
    this.#bytes.writeInt32BE(Math.floor(value / 2 ** 32), at);
    this.#bytes.writeUInt32BE(value >>> 0, at + 4);
  }

  addBool(value: boolean): void {
    const at = this.#element(1);
    this.#bytes[at] = value ? 1 : 0;
  }

  addText(value: string): void {
    const length = Buffer.byteLength(value);
    const at = this.#element(length);
    this.#bytes.write(value, at, length);
  }

  /** The first bytes of a buffer, as a text. */
  addBytes(bytes: Buffer, length: number): void {
    const at = this.#element(length);
    bytes.copy(this.#bytes, at, 0, length);
  }

  /** Makes room for the next element, and says where its bytes go. */
  #element(length: number): number {
    const start = this.#at + 4;
    this.#reserve(start + length);
    this.#bytes.writeInt32BE(length, this.#at);
    this.#at = start + length;
    this.#count++;
    return start;
  }

  #reserve(end: number): void {
    if (end <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, end));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

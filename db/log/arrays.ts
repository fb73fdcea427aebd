/**
 * One-dimensional arrays in Postgres' binary format, as parameters of a query: `pg` sends a Buffer
 * as binary. Against text literals the server saves the parsing of twenty arrays per batch.
 *
 * Layout (`array_recv`): dimensions, has-null flag, element type, length, lower bound, each 32 bits;
 * then each element as a 32-bit byte length, -1 for null, and its bytes.
 */

const OIDS = { bool: 16, int8: 20, int2: 21, int4: 23, text: 25, uuid: 2950 };
const HEADER_BYTES = 20;
const COUNT_AT = 12;
const NULL_LENGTH = -1;
const UUID_BYTES = 16;
const FIRST_BYTES = 512;

/**
 * An array that is filled element by element. Row by row over plain methods, because a function
 * per column, called for each row, costs three times as much.
 */
export class ArrayColumn {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = HEADER_BYTES;
  #count = 0;

  constructor(type: keyof typeof OIDS) {
    this.#bytes.writeInt32BE(1, 0);
    this.#bytes.writeInt32BE(1, 4);
    this.#bytes.writeInt32BE(OIDS[type], 8);
    this.#bytes.writeInt32BE(1, 16);
  }

  /** What has been added, as the parameter's value. */
  finish(): Buffer {
    this.#bytes.writeInt32BE(this.#count, COUNT_AT);
    return this.#bytes.subarray(0, this.#at);
  }

  addNull(): void {
    this.#element(0);
    this.#bytes.writeInt32BE(NULL_LENGTH, this.#at - 4);
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

  /** From the usual text with hyphens. */
  addUuid(value: string): void {
    const at = this.#element(UUID_BYTES);
    this.#bytes.write(value.replaceAll('-', ''), at, UUID_BYTES, 'hex');
  }

  addText(value: string): void {
    const length = Buffer.byteLength(value);
    const at = this.#element(length);
    this.#bytes.write(value, at, length);
  }

  /** Makes room for an element, perhaps in a new buffer, and says where its bytes go. */
  #element(length: number): number {
    const start = this.#at + 4;
    if (start + length > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, start + length));
      this.#bytes.copy(larger, 0, 0, this.#at);
      this.#bytes = larger;
    }
    this.#bytes.writeInt32BE(length, this.#at);
    this.#at = start + length;
    this.#count++;
    return start;
  }
}

/**
 * One-dimensional arrays in Postgres' binary format, as parameters of a query: `pg` sends a Buffer
 * as binary. Against text literals the server saves the parsing of twenty arrays per batch.
 *
 * Layout (`array_recv`): dimensions, has-null flag, element type, length, lower bound, each 32 bits;
 * then each element as a 32-bit byte length, -1 for null, and its bytes.
 */

/** The types of elements and their OIDs, which never change. */
const OIDS = { bool: 16, int8: 20, int2: 21, int4: 23, text: 25, uuid: 2950 };
export type ElementType = keyof typeof OIDS;
const HEADER_BYTES = 20;
const COUNT_AT = 12;
const NULL_LENGTH = -1;
const UUID_BYTES = 16;
const FIRST_BYTES = 512;
const HYPHEN = 0x2d;
const DIGIT_VALUE = new Uint8Array(128);
for (const [value, digit] of '0123456789abcdef'.split('').entries()) {
  DIGIT_VALUE[digit.charCodeAt(0)] = DIGIT_VALUE[digit.toUpperCase().charCodeAt(0)] = value;
}

/** Short and ASCII, as ids and names of models are: copying those here beats a call into the runtime. */
const PLAIN_CHARACTERS_MAX = 48;
function isPlain(value: string): boolean {
  if (value.length > PLAIN_CHARACTERS_MAX) return false;
  for (let index = 0; index < value.length; index++) if (value.charCodeAt(index) > 0x7f) return false;
  return true;
}

/**
 * An array that is filled element by element. Row by row over plain methods, because a function
 * per column, called for each row, costs three times as much.
 *
 * For a sparse column the caller gives the row of each element; rows without one become nulls. So a row
 * costs nothing in columns that it lacks, and a column without values is not sent.
 */
export class ArrayColumn {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #at = HEADER_BYTES;
  #count = 0;

  constructor(type: ElementType) {
    this.#bytes.writeInt32BE(1, 0);
    this.#bytes.writeInt32BE(1, 4);
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

  /** The same with nulls up to a number of rows; null when all of them would be. */
  finishColumn(rows: number): Buffer | null {
    if (this.#count === 0) return null;
    this.#fill(rows);
    return this.finish();
  }

  /** @throws {RangeError} beyond 16 bits. */
  addInt2(value: number, row: number = 0): void {
    const at = this.#element(2, row);
    this.#bytes.writeInt16BE(value, at);
  }

  /** @throws {RangeError} beyond 32 bits. */
  addInt4(value: number, row: number = 0): void {
    const at = this.#element(4, row);
    this.#bytes.writeInt32BE(value, at);
  }

  /** A safe integer. */
  addInt8(value: number, row: number = 0): void {
    const at = this.#element(8, row);
    this.#bytes.writeInt32BE(Math.floor(value / 2 ** 32), at);
    this.#bytes.writeUInt32BE(value >>> 0, at + 4);
  }

  addBool(value: boolean, row: number = 0): void {
    const at = this.#element(1, row);
    this.#bytes[at] = value ? 1 : 0;
  }

  /** From the usual text, 32 hexadecimal digits with hyphens among them. */
  addUuid(value: string, row: number = 0): void {
    let at = this.#element(UUID_BYTES, row);
    for (let index = 0; index < value.length; index++) {
      const high = value.charCodeAt(index);
      if (high === HYPHEN) continue;
      this.#bytes[at++] =
        ((DIGIT_VALUE[high] as number) << 4) | (DIGIT_VALUE[value.charCodeAt(++index)] as number);
    }
  }

  addText(value: string, row: number = 0): void {
    if (!isPlain(value)) return this.#addEncoded(value, row);
    const at = this.#element(value.length, row);
    for (let index = 0; index < value.length; index++) this.#bytes[at + index] = value.charCodeAt(index);
  }

  #addEncoded(value: string, row: number): void {
    const length = Buffer.byteLength(value);
    const at = this.#element(length, row);
    this.#bytes.write(value, at, length);
  }

  /** Makes room for an element at this row, or else the next, and says where its bytes go. */
  #element(length: number, row: number): number {
    if (row > this.#count) this.#fill(row);
    const start = this.#at + 4;
    this.#reserve(start + length);
    this.#bytes.writeInt32BE(length, this.#at);
    this.#at = start + length;
    this.#count++;
    return start;
  }

  /** Adds nulls until there are so many elements. */
  #fill(rows: number): void {
    this.#reserve(this.#at + 4 * (rows - this.#count));
    for (; this.#count < rows; this.#count++) {
      this.#bytes.writeInt32BE(NULL_LENGTH, this.#at);
      this.#at += 4;
    }
  }

  #reserve(end: number): void {
    if (end <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, end));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}

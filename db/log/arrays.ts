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

  /** From the usual text, 32 hexadecimal digits with hyphens among them. */
  addUuid(value: string): void {
    let at = this.#element(UUID_BYTES);
    for (let index = 0; index < value.length; index++) {
      const high = value.charCodeAt(index);
      if (high === HYPHEN) continue;
      this.#bytes[at++] = ((DIGIT_VALUE[high] as number) << 4) | (DIGIT_VALUE[value.charCodeAt(++index)] as number);
    }
  }

  addText(value: string): void {
    if (!isPlain(value)) return this.#addEncoded(value);
    const at = this.#element(value.length);
    for (let index = 0; index < value.length; index++) this.#bytes[at + index] = value.charCodeAt(index);
  }

  #addEncoded(value: string): void {
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

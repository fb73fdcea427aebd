import { textCell } from '#db/log/line.ts';

/** Far above the longest line without a body. */
const FIRST_BYTES = 4_096;
/** An integer's digits and its sign. */
const INTEGER_BYTES = 17;
const INT4_MAX = 2 ** 31 - 1;
const COMMA = 0x2c;
const ZERO = 0x30;

/** The characters that a field has without quotes. */
const PLAIN = new Uint8Array(0x80);
for (let code = 0x21; code < 0x7f; code++)
  PLAIN[code] = textCell(String.fromCharCode(code)).length === 1 ? 1 : 0;

/**
 * Writes lines as bytes, field by field in their order, into one reused buffer: a line of every event as a
 * list of strings, and as a string, would be a large part of what a call leaves to the garbage collector.
 * Fields are named by their index in `FIELDS`; those between are null.
 */
export class LineWriter {
  #bytes = Buffer.allocUnsafe(FIRST_BYTES);
  #length = 0;
  /** The index of the last field that was written. */
  #field = 0;

  /** The bytes of the line, until the next one is begun. */
  get bytes(): Buffer {
    return this.#bytes;
  }

  /** How many of {@link bytes} are the line's. */
  get length(): number {
    return this.#length;
  }

  /** Begins a line, whose first field is its type. */
  begin(type: number): void {
    this.#bytes[0] = 0x28;
    this.#length = 1;
    this.#field = 0;
    this.#digits(type);
  }

  /** Ends the line. @param fields how many it has. */
  end(fields: number): void {
    this.#goTo(fields - 1);
    this.#bytes[this.#length++] = 0x29;
  }

  /** Writes a text. @throws {RangeError} where it is not printable ASCII. */
  text(field: number, value: string): void {
    this.#goTo(field);
    const start = this.#length;
    const end = start + value.length;
    this.#reserve(end);
    const bytes = this.#bytes;
    for (let at = start; at < end; at++) {
      const code = value.charCodeAt(at - start);
      if (PLAIN[code] !== 1) return this.#quoted(value);
      bytes[at] = code;
    }
    if (start === end) return this.#quoted(value);
    this.#length = end;
  }

  /** Writes an integer. @throws {RangeError} beyond the column's type. */
  integer(field: number, value: number, max: number = Number.MAX_SAFE_INTEGER): void {
    if (!Number.isInteger(value) || value > max || value < -max)
      throw new RangeError(`an event has ${value} where a column takes integers up to ${max}`);
    this.#goTo(field);
    this.#digits(value);
  }

  /** Ends the fields before this one. */
  #goTo(field: number): void {
    if (field < this.#field) throw new Error('assertion failed: fields are written in their order');
    // Room for an integer, too.
    this.#reserve(this.#length + field - this.#field + INTEGER_BYTES);
    for (; this.#field < field; this.#field++) this.#bytes[this.#length++] = COMMA;
  }

  #digits(value: number): void {
    if (value < 0 || value > INT4_MAX) return this.#ascii(String(value));
    let end = this.#length + 1;
    for (let rest = value; rest > 9; rest = (rest / 10) | 0) end++;
    this.#length = end;
    let rest = value;
    do {
      const quotient = (rest / 10) | 0;
      this.#bytes[--end] = ZERO + rest - quotient * 10;
      rest = quotient;
    } while (rest > 0);
  }

  #quoted(value: string): void {
    const cell = textCell(value);
    this.#reserve(this.#length + cell.length);
    this.#ascii(cell);
  }

  #ascii(text: string): void {
    this.#length += this.#bytes.write(text, this.#length, 'latin1');
  }

  #reserve(end: number): void {
    if (end + INTEGER_BYTES <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(2 * end + INTEGER_BYTES);
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}

/**
 * Reads the fields of lines in place: a page has a hundred thousand lines of which most fields are empty, so
 * that a list of strings for each would cost more than all that is done with them. Pure.
 */

/** Far above the fields of a line. */
const FIELDS_MAX = 128;
const COMMA = 0x2c;
const QUOTE = 0x22;
const OPEN = 0x28;
const CLOSE = 0x29;
const MINUS = 0x2d;
const ZERO = 0x30;

/** Names that are kept, so that an account of many lines is one string: a power of two. */
const NAMES_KEPT = 8_192;
const NAME_KEPT_LENGTH_MAX = 64;

export class LineReader {
  #text = '';
  /** Where each field begins and ends in the text; of a quoted one its text between the quotes. */
  readonly #starts = new Int32Array(FIELDS_MAX);
  readonly #ends = new Int32Array(FIELDS_MAX);
  readonly #isQuoted = new Uint8Array(FIELDS_MAX);
  readonly #names: (string | undefined)[] = Array.from({ length: NAMES_KEPT }, () => undefined);
  #count = 0;
  #quotedCount = 0;

  /**
   * Reads a line, which is a part of a text. The fields are its own until the next one is read.
   * @throws {Error} where it is not the text of a composite value; it then has no fields.
   */
  read(text: string, from: number, to: number): void {
    this.#count = 0;
    if (this.#quotedCount > 0) this.#isQuoted.fill(0);
    this.#quotedCount = 0;
    this.#text = text;
    const last = to - 1;
    if (last <= from || text.charCodeAt(from) !== OPEN || text.charCodeAt(last) !== CLOSE)
      throw new Error('it is no composite value');
    const starts = this.#starts;
    const ends = this.#ends;
    let field = 0;
    let start = from + 1;
    for (let at = start; at < last; at++) {
      const code = text.charCodeAt(at);
      if (code === COMMA) {
        starts[field] = start;
        ends[field] = at;
        start = at + 1;
        if (++field === FIELDS_MAX) throw new Error(`it has more than ${FIELDS_MAX} fields`);
      } else if (code === QUOTE) {
        if (at !== start) throw new Error('a quote is within a field');
        at = endOfQuoted(text, at, last);
        starts[field] = start + 1;
        ends[field] = at - 1;
        this.#isQuoted[field] = 1;
        this.#quotedCount++;
        if (at === last) {
          this.#count = field + 1;
          return;
        }
        start = at + 1;
        if (++field === FIELDS_MAX) throw new Error(`it has more than ${FIELDS_MAX} fields`);
      }
    }
    starts[field] = start;
    ends[field] = last;
    this.#count = field + 1;
  }

  /** How many fields the line has. */
  get count(): number {
    return this.#count;
  }

  /** Whether a field isn't null. */
  has(field: number): boolean {
    if (field >= this.#count) return false;
    return (this.#ends[field] as number) > (this.#starts[field] as number) || this.#isQuoted[field] === 1;
  }

  /** A field that every event of the type has. @throws {TypeError} where it is null. */
  text(field: number): string {
    if (!this.has(field)) throw new TypeError('it lacks a value that every event of its type has');
    const text = this.#text.slice(this.#starts[field], this.#ends[field]);
    return this.#isQuoted[field] === 1 ? unquoted(text) : text;
  }

  /** A field, or null. */
  cell(field: number): string | null {
    return this.has(field) ? this.text(field) : null;
  }

  /**
   * The same as {@link text} for a value that many lines have: an account, a key, a model. It is one string
   * for all of them, and keeps no text of lines in memory.
   */
  name(field: number): string {
    const start = this.#starts[field] as number;
    const length = (this.#ends[field] as number) - start;
    if (field >= this.#count || this.#isQuoted[field] === 1 || length <= 0 || length > NAME_KEPT_LENGTH_MAX)
      return this.text(field);
    const text = this.#text;
    let hash = length;
    for (let at = start; at < start + length; at++) hash = (Math.imul(hash, 31) + text.charCodeAt(at)) | 0;
    const slot = (hash ^ (hash >>> 15)) & (NAMES_KEPT - 1);
    const known = this.#names[slot];
    if (known?.length === length && isAt(text, start, known)) return known;
    return (this.#names[slot] = copyOf(text, start, length));
  }

  /** A field of an integer. @throws {TypeError} where it is null, or no integer. */
  integer(field: number): number {
    const text = this.#text;
    let at = this.#starts[field] as number;
    const end = this.#ends[field] as number;
    if (field >= this.#count || this.#isQuoted[field] === 1 || end <= at) this.#lacksInteger(field);
    const isNegative = text.charCodeAt(at) === MINUS;
    if (isNegative && ++at === end) this.#lacksInteger(field);
    let value = 0;
    for (; at < end; at++) {
      const digit = text.charCodeAt(at) - ZERO;
      if (digit < 0 || digit > 9) this.#lacksInteger(field);
      value = value * 10 + digit;
    }
    return isNegative ? -value : value;
  }

  #lacksInteger(field: number): never {
    throw new TypeError(
      this.has(field)
        ? 'it has no integer where its type has one'
        : 'it lacks a value that every event of its type has',
    );
  }
}

/** Where the text behind a quoted field begins. @throws {Error} where it has no end. */
function endOfQuoted(text: string, quote: number, last: number): number {
  let end = quote;
  do end = text.indexOf('"', end + 1) + 1;
  while (end > 0 && end < last && text.charCodeAt(end) === QUOTE);
  if (end === 0 || end > last || (end !== last && text.charCodeAt(end) !== COMMA))
    throw new Error('a quote has no end');
  return end;
}

/** The text of a quoted field: quotes and backslashes in it are doubled. */
function unquoted(text: string): string {
  return text.includes('\\') ? text.replace(/(["\\])\1/g, '$1') : text.replaceAll('""', '"');
}

function isAt(text: string, start: number, name: string): boolean {
  for (let index = 0; index < name.length; index++)
    if (text.charCodeAt(start + index) !== name.charCodeAt(index)) return false;
  return true;
}

/** Copies a part of a text: a slice would keep the whole text in memory. */
function copyOf(text: string, start: number, length: number): string {
  const codes: number[] = [];
  for (let at = start; at < start + length; at++) codes.push(text.charCodeAt(at));
  return String.fromCharCode(...codes);
}

import { type EventRow, microsecondsOf, rowOfFields } from '#db/audit/source/lines.ts';
import {
  type Column,
  endOfDigits,
  endOfValue,
  isValue,
  numberOf,
  REQUESTS,
  stands,
} from '#db/audit/source/plain-columns.ts';
import { AT, NAMES } from '#db/audit/verify/event.ts';

/**
 * Rows of the log as COPY writes them, with commas between and nothing for null. Of a request that is
 * already the text that its leaf covers, but for the time, and it is told for one byte by byte: no
 * text is made of it that would have to be thrown away again. Pure.
 */

const [COMMA, LINE_BREAK, OPEN, CLOSE, ZERO, TRUE, FALSE] = [0x2c, 0x0a, 0x28, 0x29, 0x30, 0x74, 0x66];

/** Reads rows one after the other. */
export class CopiedRows {
  readonly rows: EventRow[] = [];
  /**
   * Whether there was a row that can't be told from another one by what COPY wrote: an empty text beside
   * null, or a time that is none.
   */
  isAmbiguous = false;
  /** The time of the row before, as it was written and in microseconds: all rows of a batch have the same. */
  #time = Buffer.alloc(0);
  #microseconds = '';
  #microsecondBytes = Buffer.alloc(0);
  #instance = 0;
  #instanceText = '0';

  /**
   * Takes a row that is there for good, and writes into it what its leaf covers.
   * @param bytes where it stands, from `start` up to, but without, `end`, which is behind its line break.
   */
  take(bytes: Buffer, start: number, end: number): void {
    const row = this.#request(bytes, start, end) ?? this.#row(bytes.toString('utf8', start, end - 1));
    if (row === null) this.isAmbiguous = true;
    else this.rows.push(row);
  }

  #request(bytes: Buffer, start: number, end: number): EventRow | null {
    if (bytes[start] !== ZERO || bytes[start + 1] !== COMMA) return null;
    const behindPosition = endOfDigits(bytes, start + 2);
    const position = numberOf(bytes, start + 2, behindPosition);
    if (position === 0 || bytes[behindPosition] !== COMMA) return null;
    let at = behindPosition + 1;
    const time = this.#time;
    if (
      (time.length === 0 || !stands(bytes, at, time) || bytes[at + time.length] !== COMMA) &&
      !this.#takeTime(bytes, at)
    )
      return null;
    const behindTime = (at += this.#time.length);
    const behindType = endOfDigits(bytes, at + 1);
    const columns = bytes[behindType] === COMMA ? REQUESTS[numberOf(bytes, at + 1, behindType)] : undefined;
    if (columns === undefined) return null;
    at = endOfDigits(bytes, behindType + 1);
    if (at === behindType + 1 || bytes[at] !== COMMA) return null;
    const instance = numberOf(bytes, behindType + 1, at);
    for (let index = 0; index < columns.length; index++) {
      const column = columns[index] as Column;
      const from = ++at;
      at = endOfValue(bytes, from, column);
      // Behind the last column there is one more, which is empty for all that is not ambiguous.
      if (bytes[at] !== COMMA) return null;
      if (at === from) {
        if (column.isNeeded) return null;
      } else if (column.isBoolean) {
        if (at !== from + 1 || (bytes[from] !== TRUE && bytes[from] !== FALSE)) return null;
      } else if (!isValue(bytes, from, at, column)) return null;
    }
    if (bytes[at + 1] !== LINE_BREAK || at + 2 !== end) return null;
    bytes[at] = CLOSE;
    if (instance !== this.#instance) {
      this.#instance = instance;
      this.#instanceText = String(instance);
    }
    return {
      position,
      at: this.#microseconds,
      instance: this.#instanceText,
      text: bytes.subarray(this.#beginLeaf(bytes, start, behindPosition, behindTime), at + 1),
      fields: null,
    };
  }

  /**
   * Writes what is before the type as a leaf has it, up to the comma behind the time. @returns where that
   * begins: microseconds are shorter than what they stand for.
   */
  #beginLeaf(bytes: Buffer, start: number, behindPosition: number, behindTime: number): number {
    const microseconds = this.#microsecondBytes;
    let to = behindTime - microseconds.length;
    for (let index = 0; index < microseconds.length; index++)
      bytes[to + index] = microseconds[index] as number;
    for (let from = behindPosition; from >= start; from--) bytes[--to] = bytes[from] as number;
    bytes[--to] = OPEN;
    bytes[--to] = 0;
    return to;
  }

  /** @returns whether a time stands there that can be written over. */
  #takeTime(bytes: Buffer, from: number): boolean {
    const to = bytes.indexOf(COMMA, from);
    const microseconds = microsecondsOf(bytes.toString('latin1', from, to));
    if (microseconds === null || to - from < microseconds.length + 2) return false;
    this.#time = Buffer.from(bytes.subarray(from, to));
    this.#microseconds = microseconds;
    this.#microsecondBytes = Buffer.from(microseconds, 'latin1');
    return true;
  }

  /** A row that is no request, or none of the plain ones; null where it is ambiguous. */
  #row(line: string): EventRow | null {
    const fields = copiedFields(line);
    if (fields.length !== NAMES.length + 1 || fields.pop() !== null) return null;
    const time = fields[AT.at];
    if (time == null) return rowOfFields(fields);
    const microseconds = microsecondsOf(time);
    return microseconds === null ? null : rowOfFields(fields.with(AT.at, microseconds));
  }
}

const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

/** One value with what ends it. */
const VALUE = /((?:[^\\,]|\\.)*)(,|$)/gsy;

/** The values of a line, null for nothing. */
export function copiedFields(line: string): (string | null)[] {
  if (!line.includes('\\')) return line.split(',').map((field) => (field === '' ? null : field));
  const fields: (string | null)[] = [];
  for (const [, written = '', ending] of line.matchAll(VALUE)) {
    fields.push(
      written === '' ? null : written.replace(/\\(.)/gs, (_, escaped: string) => ESCAPED[escaped] ?? escaped),
    );
    if (ending === '') break;
  }
  return fields;
}

import { type EventRow, microsecondsOf, rowOfFields } from '#db/audit/source/event-row.ts';
import {
  type Column,
  endOfDigits,
  endOfValue,
  isValue,
  numberOf,
  REQUESTS,
  startsWithBytes,
} from '#db/audit/source/plain-columns.ts';
import { AT, NAMES } from '#db/audit/verify/event.ts';

/**
 * Parses rows of the log as COPY writes them, separated by commas, with an empty field for null. For a
 * request that is the text that its leaf covers, except for the time, so it is validated byte by byte without
 * allocating a string. Pure.
 */

const [COMMA, LINE_BREAK, OPEN, CLOSE, ZERO, TRUE, FALSE] = [0x2c, 0x0a, 0x28, 0x29, 0x30, 0x74, 0x66];

/** Parses rows one by one. */
export class CopyRows {
  readonly rows: EventRow[] = [];
  /**
   * Whether a row can't be parsed from COPY's output: it has an empty text, or an infinite time.
   */
  isAmbiguous = false;
  /** The time of the row before, as text and in microseconds: all rows of a batch have the same. */
  #time = Buffer.alloc(0);
  #microseconds = '';
  #microsecondBytes = Buffer.alloc(0);
  #instance = 0;
  #instanceText = '0';

  /**
   * Adds a row, and rewrites its bytes to the content of its leaf.
   * @param bytes that stay allocated; the row is from `start` to `end`, exclusive, including its line break.
   */
  addRow(bytes: Buffer, start: number, end: number): void {
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
      (time.length === 0 || !startsWithBytes(bytes, at, time) || bytes[at + time.length] !== COMMA) &&
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
      // After the last column there is one more, which is empty unless the row is ambiguous.
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
   * Rewrites the columns before the type as in a leaf.
   * @returns the start of the leaf: microseconds are shorter than the text of a time.
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

  /** Parses the time at an offset. @returns false if it can't be rewritten in place. */
  #takeTime(bytes: Buffer, from: number): boolean {
    const to = bytes.indexOf(COMMA, from);
    const microseconds = microsecondsOf(bytes.toString('latin1', from, to));
    if (microseconds === null || to - from < microseconds.length + 2) return false;
    this.#time = Buffer.from(bytes.subarray(from, to));
    this.#microseconds = microseconds;
    this.#microsecondBytes = Buffer.from(microseconds, 'latin1');
    return true;
  }

  /** Parses any other row; null if it is ambiguous. */
  #row(line: string): EventRow | null {
    const fields = copyFields(line);
    if (fields.length !== NAMES.length + 1 || fields.pop() !== null) return null;
    const time = fields[AT.at];
    if (time == null) return rowOfFields(fields);
    const microseconds = microsecondsOf(time);
    return microseconds === null ? null : rowOfFields(fields.with(AT.at, microseconds));
  }
}

const ESCAPED: Readonly<Record<string, string>> = { b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' };

/** A value and its delimiter. */
const VALUE = /((?:[^\\,]|\\.)*)(,|$)/gsy;

/** The fields of a line; an empty one is null. */
export function copyFields(line: string): (string | null)[] {
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

import type { EventRow } from '#db/audit/source/event-row.ts';
import { Arena } from '#db/audit/source/arena.ts';
import {
  type Column,
  endOfDigits,
  endOfValue,
  isValue,
  numberOf,
  REQUESTS,
  startsWithBytes,
} from '#db/audit/source/plain-columns.ts';
import { NAMES } from '#db/audit/verify/event.ts';

/**
 * Parses lines of exported files as rows. Nearly all are requests with just the fields of their type and no
 * value that needs quoting, so the content of the leaf is copied byte by byte. Parsing JSON and serializing
 * the row again takes many times as long. Pure.
 */

const [COMMA, QUOTE, OPEN, CLOSE, ZERO, TRUE, FALSE, END] = [0x2c, 0x22, 0x28, 0x29, 0x30, 0x74, 0x66, 0x7d];

const [POSITION, TIME, TYPE, INSTANCE] = ['{"position":', ',"at_us":', ',"type":', ',"instance":'].map(
  (label) => Buffer.from(label),
) as [Buffer, Buffer, Buffer, Buffer];
const [TRUE_VALUE, FALSE_VALUE] = [Buffer.from('true'), Buffer.from('false')];

/** A column with the label before its value. */
type Labelled = { column: Column; label: Buffer };
const LABELLED: readonly (readonly Labelled[])[] = REQUESTS.map((columns) =>
  columns.map((column) => ({ column, label: Buffer.from(`,"${column.name}":`) })),
);

/** The end of the digits after a label at this offset; 0 without digits, or for another label. */
function endBehind(line: Buffer, at: number, label: Buffer): number {
  if (!startsWithBytes(line, at, label)) return 0;
  const end = endOfDigits(line, at + label.length);
  return end === at + label.length ? 0 : end;
}

/** Copies a value after a comma. @returns the end of the copy. */
function append(leaf: Buffer, to: number, line: Buffer, from: number, until: number): number {
  leaf[to++] = COMMA;
  for (let at = from; at < until; at++) leaf[to++] = line[at] as number;
  return to;
}

/** Parses lines of shard 0 one by one. */
export class JsonRows {
  readonly #arena = new Arena();
  /** The time of the row before, as text and as bytes: all rows of a batch have the same. */
  #time = '';
  #timeBytes = Buffer.alloc(0);

  /**
   * Parses a line, and copies it.
   * @param line the bytes; the line is from `start` to `end`, exclusive.
   * @returns null if the line needs the full parser.
   */
  parseRow(line: Buffer, start: number, end: number): EventRow | null {
    const behindPosition = endBehind(line, start, POSITION);
    const behindTime = behindPosition && endBehind(line, behindPosition, TIME);
    const behindType = behindTime && endBehind(line, behindTime, TYPE);
    const behindInstance = behindType && endBehind(line, behindType, INSTANCE);
    const columns =
      behindInstance === 0 ? undefined : LABELLED[numberOf(line, behindTime + TYPE.length, behindType)];
    if (columns === undefined) return null;
    // A field that the line omits is a comma in the leaf.
    this.#arena.reserve(end - start + NAMES.length);
    const { bytes: leaf, filled: begun } = this.#arena;
    let to = begun;
    leaf[to++] = 0;
    leaf[to++] = OPEN;
    leaf[to++] = ZERO;
    to = append(leaf, to, line, start + POSITION.length, behindPosition);
    to = append(leaf, to, line, behindPosition + TIME.length, behindTime);
    to = append(leaf, to, line, behindTime + TYPE.length, behindType);
    to = append(leaf, to, line, behindType + INSTANCE.length, behindInstance);
    to = takeColumns(leaf, to, line, behindInstance, end, columns);
    if (to === 0) return null;
    this.#arena.filled = to;
    return {
      position: numberOf(line, start + POSITION.length, behindPosition),
      at: this.#timeOf(line, behindPosition + TIME.length, behindTime),
      instance: line.toString('latin1', behindType + INSTANCE.length, behindInstance),
      text: leaf.subarray(begun, to),
      fields: null,
    };
  }

  #timeOf(line: Buffer, from: number, to: number): string {
    const time = this.#timeBytes;
    if (time.length !== to - from || !startsWithBytes(line, from, time)) {
      this.#timeBytes = Buffer.from(line.subarray(from, to));
      this.#time = this.#timeBytes.toString('latin1');
    }
    return this.#time;
  }
}

/**
 * Copies the fields of a line from `begun` to `end` into a leaf.
 * @returns the end of the leaf; 0 if the line has any other field.
 */
function takeColumns(
  leaf: Buffer,
  begin: number,
  line: Buffer,
  begun: number,
  end: number,
  columns: readonly Labelled[],
): number {
  let to = begin;
  let at = begun;
  for (let index = 0; index < columns.length; index++) {
    const { column, label } = columns[index] as Labelled;
    if (column.bytes === 0 || !startsWithBytes(line, at, label)) {
      if (column.isNeeded) return 0;
      leaf[to++] = COMMA;
      continue;
    }
    at += label.length;
    if (column.isBoolean) {
      const value = startsWithBytes(line, at, TRUE_VALUE) ? TRUE_VALUE : FALSE_VALUE;
      if (!startsWithBytes(line, at, value)) return 0;
      leaf[to++] = COMMA;
      leaf[to++] = value === TRUE_VALUE ? TRUE : FALSE;
      at += value.length;
      continue;
    }
    if (column.isText && line[at++] !== QUOTE) return 0;
    const until = endOfValue(line, at, column);
    if (until === at || !isValue(line, at, until, column)) return 0;
    to = append(leaf, to, line, at, until);
    at = until;
    if (column.isText && line[at++] !== QUOTE) return 0;
  }
  if (line[at] !== END || at + 1 !== end) return 0;
  leaf[to++] = CLOSE;
  return to;
}

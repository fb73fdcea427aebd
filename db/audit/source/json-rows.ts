import type { EventRow } from '#db/audit/source/lines.ts';
import { Chunks } from '#db/audit/source/chunks.ts';
import {
  type Column,
  endOfDigits,
  endOfValue,
  isValue,
  numberOf,
  REQUESTS,
  stands,
} from '#db/audit/source/plain-columns.ts';
import { NAMES } from '#db/audit/verify/event.ts';

/**
 * Lines of exported files as rows. Nearly all are requests that have just what their type has, and no
 * value that anybody would have to quote: what a leaf covers is copied out of them byte by byte. To
 * parse JSON and put a row together again takes many times as long. Pure.
 */

const [COMMA, QUOTE, OPEN, CLOSE, ZERO, TRUE, FALSE, END] = [0x2c, 0x22, 0x28, 0x29, 0x30, 0x74, 0x66, 0x7d];

const [POSITION, TIME, TYPE, INSTANCE] = ['{"position":', ',"at_us":', ',"type":', ',"instance":'].map(
  (label) => Buffer.from(label),
) as [Buffer, Buffer, Buffer, Buffer];
const [TRUE_VALUE, FALSE_VALUE] = [Buffer.from('true'), Buffer.from('false')];

/** A column with what stands before its value. */
type Labelled = { column: Column; label: Buffer };
const LABELLED: readonly (readonly Labelled[])[] = REQUESTS.map((columns) =>
  columns.map((column) => ({ column, label: Buffer.from(`,"${column.name}":`) })),
);

/** Where digits behind a label that stands here end; 0 where there are none, or another label. */
function endBehind(line: Buffer, at: number, label: Buffer): number {
  if (!stands(line, at, label)) return 0;
  const end = endOfDigits(line, at + label.length);
  return end === at + label.length ? 0 : end;
}

/** Copies a value behind a comma. @returns where it ends there. */
function append(leaf: Buffer, to: number, line: Buffer, from: number, until: number): number {
  leaf[to++] = COMMA;
  for (let at = from; at < until; at++) leaf[to++] = line[at] as number;
  return to;
}

/** Reads lines one after the other, in shard 0. */
export class JsonRows {
  readonly #pieces = new Chunks();
  /** The time of the row before, as a text and where it stood: all rows of a batch have the same. */
  #time = '';
  #timeBytes = Buffer.alloc(0);

  /**
   * The row of a line.
   * @param line where it stands, from `start` up to, but without, `end`. It is copied.
   * @returns null where it takes more than a look at each byte to tell.
   */
  take(line: Buffer, start: number, end: number): EventRow | null {
    const behindPosition = endBehind(line, start, POSITION);
    const behindTime = behindPosition && endBehind(line, behindPosition, TIME);
    const behindType = behindTime && endBehind(line, behindTime, TYPE);
    const behindInstance = behindType && endBehind(line, behindType, INSTANCE);
    const columns =
      behindInstance === 0 ? undefined : LABELLED[numberOf(line, behindTime + TYPE.length, behindType)];
    if (columns === undefined) return null;
    // What is not in it is at most a comma in the leaf.
    this.#pieces.reserve(end - start + NAMES.length);
    const { bytes: leaf, filled: begun } = this.#pieces;
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
    this.#pieces.filled = to;
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
    if (time.length !== to - from || !stands(line, from, time)) {
      this.#timeBytes = Buffer.from(line.subarray(from, to));
      this.#time = this.#timeBytes.toString('latin1');
    }
    return this.#time;
  }
}

/**
 * Copies what a line has from `at` up to its end into a leaf. @returns where that ends, 0 where the line has
 * anything else.
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
    if (column.bytes === 0 || !stands(line, at, label)) {
      if (column.isNeeded) return 0;
      leaf[to++] = COMMA;
      continue;
    }
    at += label.length;
    if (column.isBoolean) {
      const value = stands(line, at, TRUE_VALUE) ? TRUE_VALUE : FALSE_VALUE;
      if (!stands(line, at, value)) return 0;
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

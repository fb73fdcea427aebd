import { LineReader } from '#db/log/line-reader.ts';

/**
 * The line of an event: its fields as PostgreSQL's text of the composite value `daybook.event_fields`. A
 * batch is stored as its lines, and an entry, which a leaf hash covers, is a line with the event's place in
 * the log before its fields; see docs/audit-format.md. Pure.
 */

/** The fields of a line in the order of `FIELDS`, each in PostgreSQL's text format, null for null. */
export type Cells = readonly (string | null)[];

/** The place of an event: the fields of its entry before the line's. `atUs`: microseconds since 1970. */
export type LinePlace = { shard: number; position: number; atUs: string; instance: number };

/** A line is in printable ASCII, so that bytes are characters and a line break ends it. */
const PRINTABLE = /^[\x20-\x7e]*$/;
/** The printable characters for which PostgreSQL quotes a value. */
const QUOTED_FOR = /[ "\\(),]/;

/**
 * A text as a field of a line.
 * @throws {RangeError} where it is not printable ASCII.
 */
export function textCell(text: string): string {
  if (!PRINTABLE.test(text)) throw new RangeError('a field of an event is not printable ASCII');
  if (text !== '' && !QUOTED_FOR.test(text)) return text;
  return `"${text.replace(/["\\]/g, '$&$&')}"`;
}

/**
 * The fields of a line.
 * @throws {Error} where it is not the text of a composite value.
 */
export function cellsOf(line: string): Cells {
  READER.read(line, 0, line.length);
  const cells: (string | null)[] = [];
  // A loop, because a page of a projection has thousands of lines: a callback takes twice as long.
  for (let field = 0; field < READER.count; field++) cells.push(READER.cell(field));
  return cells;
}

const READER = new LineReader();

/** The entry of an event. */
export function entryOf({ shard, position, atUs, instance }: LinePlace, line: string): string {
  return `(${shard},${position},${atUs},${instance},${line.slice(1)}`;
}

/** An event's place and its line, from its entry. @throws {Error} where it is not an entry. */
export function splitEntry(entry: string): { place: LinePlace; line: string } {
  const [text = '', shard, position, atUs, instance] = /^\((\d+),(\d+),(\d+),(\d+),/.exec(entry) ?? [];
  if (atUs === undefined) throw new Error('it is no entry');
  return {
    place: { shard: Number(shard), position: Number(position), atUs, instance: Number(instance) },
    line: `(${entry.slice(text.length)}`,
  };
}

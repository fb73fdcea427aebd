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
const COMMA = 0x2c;
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
  if (!line.startsWith('(') || !line.endsWith(')')) throw new Error('it is no composite value');
  const cells: (string | null)[] = [];
  let from = 1;
  // Few lines quote a field, and none more than one or two.
  for (let quote = line.indexOf('"'); quote >= 0; quote = line.indexOf('"', from)) {
    if (quote > from) addPlain(cells, line, from, quote - 1);
    const end = endOfQuoted(line, quote);
    cells.push(unquoted(line.slice(quote + 1, end - 1)));
    if (end === line.length - 1) return cells;
    from = end + 1;
  }
  addPlain(cells, line, from, line.length - 1);
  return cells;
}

/** Adds the fields of a part without quotes. Most of them are empty, and one page has a hundred thousand. */
function addPlain(cells: (string | null)[], line: string, start: number, end: number): void {
  let from = start;
  for (let at = start; at < end; at++) {
    if (line.charCodeAt(at) !== COMMA) continue;
    cells.push(at === from ? null : line.slice(from, at));
    from = at + 1;
  }
  cells.push(end <= from ? null : line.slice(from, end));
}

/** The text of a quoted field: quotes and backslashes in it are doubled. */
function unquoted(text: string): string {
  return text.includes('\\') ? text.replace(/(["\\])\1/g, '$1') : text.replaceAll('""', '"');
}

/** Where the text behind a quoted field begins. @throws {Error} where it has no end. */
function endOfQuoted(line: string, quote: number): number {
  let end = quote;
  do end = line.indexOf('"', end + 1) + 1;
  while (end > 0 && line[end] === '"');
  if (end === 0 || (line[end] !== ',' && end !== line.length - 1)) throw new Error('a quote has no end');
  return end;
}

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

import { textCell } from '#db/log/line.ts';

/** Rows as PostgreSQL reads them: their values as text, null for null, in printable ASCII. Pure. */
export type Row = readonly (string | null)[];

/** So much text is sent at once: PostgreSQL inserts its rows while the next are made. */
const CHUNK_BYTES = 256 * 1024;

/** The text of rows for `copy … from stdin`. */
export function* copyText(rows: Iterable<Row>): Generator<Buffer> {
  let text = '';
  for (const row of rows) {
    for (let index = 0; index < row.length; index++) {
      const value = row[index] as string | null;
      if (index > 0) text += '\t';
      if (value === null) text += '\\N';
      else text += value.includes('\\') ? value.replaceAll('\\', '\\\\') : value;
    }
    text += '\n';
    if (text.length < CHUNK_BYTES) continue;
    yield Buffer.from(text, 'latin1');
    text = '';
  }
  if (text !== '') yield Buffer.from(text, 'latin1');
}

/** A value as a field of a composite value. @throws {RangeError} where it is not printable ASCII. */
export const fieldText = (value: string | null): string => (value === null ? '' : textCell(value));

/** Rows as lines that are composite values. @throws {RangeError} where a value is not printable ASCII. */
export function compositeLines(rows: readonly Row[]): string {
  return rows.map((row) => `(${row.map(fieldText).join(',')})`).join('\n');
}

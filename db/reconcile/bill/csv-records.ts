import { CSV_RECORD_CHARACTERS_MAX } from '#db/reconcile/bill/bounds.ts';
import { BillFormatError, quoted } from '#db/reconcile/bill/format-error.ts';

/** Reads comma-separated values (RFC 4180) whose first record names the columns. Pure. */

/** A record's cells by the names of their columns, and the line of the file in which it begins. */
export type CsvRecord = { place: string; cells: ReadonlyMap<string, string> };

/**
 * The records after the header, without empty ones.
 * @param required columns that the header must have.
 * @throws {BillFormatError} naming the line where the text is not such a file.
 */
export function* csvRecords(text: string, required: readonly string[]): Iterable<CsvRecord> {
  const records = readRecords(text.replace(/^\uFEFF/, ''));
  const header = records.next();
  if (header.done === true) throw new BillFormatError('line 1', 'The file is empty.');
  const names = header.value.cells.map((name) => name.trim());
  const twice = names.find((name, index) => name !== '' && names.indexOf(name) !== index);
  if (twice !== undefined) throw new BillFormatError('line 1', `The column ${quoted(twice)} is there twice.`);
  const missing = required.filter((name) => !names.includes(name));
  if (missing.length > 0)
    throw new BillFormatError('line 1', `The header has no column ${missing.map(quoted).join(', ')}.`);
  for (const { line, cells } of records) {
    if (cells.length === 1 && cells[0] === '') continue;
    const place = `line ${line}`;
    if (cells.length !== names.length)
      throw new BillFormatError(place, `It has ${cells.length} cells, and the header ${names.length}.`);
    yield { place, cells: new Map(names.map((name, index) => [name, (cells[index] ?? '').trim()])) };
  }
}

type Record = { line: number; cells: string[] };

const PLAIN_CELL = /[^",\r\n]*/y;
const SEPARATOR = /,|\r\n|\n|\r|$/y;

function* readRecords(text: string): Generator<Record, undefined> {
  let record: Record = { line: 1, cells: [] };
  let [at, began, line] = [0, 0, 1];
  while (at < text.length || record.cells.length > 0) {
    const place = `line ${record.line}`;
    const end = text[at] === '"' ? endOfQuotes(text, at, place) : matchAt(PLAIN_CELL, text, at).end;
    const cell = text.slice(at, end);
    const separator = matchAt(SEPARATOR, text, end);
    if (separator.text === null) throw new BillFormatError(place, 'A quote is not closed or not doubled.');
    at = separator.end;
    if (at - began > CSV_RECORD_CHARACTERS_MAX)
      throw new BillFormatError(place, `It has more than ${CSV_RECORD_CHARACTERS_MAX} characters.`);
    record.cells.push(cell.startsWith('"') ? cell.slice(1, -1).replaceAll('""', '"') : cell);
    line += cell.split(/\r\n|\n|\r/).length - 1;
    if (separator.text === ',') continue;
    yield record;
    line += 1;
    record = { line, cells: [] };
    began = at;
  }
}

/** The end of a cell in quotes, after the quote that closes it. */
function endOfQuotes(text: string, start: number, place: string): number {
  for (let at = start + 1; at - start <= CSV_RECORD_CHARACTERS_MAX; at += 2) {
    at = text.indexOf('"', at);
    if (at < 0) break;
    if (text[at + 1] !== '"') return at + 1;
  }
  throw new BillFormatError(place, 'A quote is not closed, or its cell is too long.');
}

function matchAt(pattern: RegExp, text: string, at: number): { text: string | null; end: number } {
  pattern.lastIndex = at;
  const [found = null] = pattern.exec(text) ?? [];
  return { text: found, end: at + (found?.length ?? 0) };
}

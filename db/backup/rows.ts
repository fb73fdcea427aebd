import { readFile, type Row, rowsIn } from '#db/backup/file.ts';
import type { TableFile } from '#db/backup/manifest.ts';
import type { BatchRow, LeafRow } from '#db/log/chain.ts';
import { COLUMN_NAMES } from '#db/log/columns.ts';

/** A cursor over the rows of a table's file. */
export class TableRows {
  readonly #columns: readonly string[];
  readonly #pages: AsyncGenerator<Row[]>;
  #page: Row[] = [];
  #at = 0;
  /** The number of rows consumed. */
  taken = 0;

  constructor(directory: string, file: TableFile) {
    this.#columns = file.columns;
    this.#pages = rowsIn(readFile(directory, file), file);
  }

  /** The next row, without consuming it; undefined after the last one. */
  async peek(): Promise<Row | undefined> {
    while (this.#at === this.#page.length) {
      const { value, done } = await this.#pages.next();
      if (done === true) return undefined;
      this.#page = value;
      this.#at = 0;
    }
    return this.#page[this.#at];
  }

  /** Consumes the row that was peeked at. */
  take(): void {
    this.#at++;
    this.taken++;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Row> {
    for (let row = await this.peek(); row !== undefined; row = await this.peek()) {
      this.take();
      yield row;
    }
  }

  /** The indexes of these columns in a row; -1 for a column that the backup's version lacks. */
  columnIndexes(names: readonly string[]): number[] {
    return names.map((name) => this.#columns.indexOf(name));
  }

  /** Closes the file. */
  async close(): Promise<void> {
    await this.#pages.return(undefined);
  }
}

/** Parses PostgreSQL's ISO format in UTC to microseconds since 1970; NaN for any other text. */
export function microsecondsOf(text: string): number {
  const [, date = '', time = '', fraction = ''] =
    /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00$/.exec(text) ?? [];
  return Date.parse(`${date}T${time}Z`) * 1_000 + Number(fraction.padEnd(6, '0'));
}

const LEAF_AT = COLUMN_NAMES.indexOf('at');

/** Converts rows of the log to leaf rows. */
export function leavesOf(rows: TableRows): (row: Row) => LeafRow {
  const places = rows.columnIndexes(COLUMN_NAMES);
  // All events of a batch carry the same time.
  let text = '';
  let us = '';
  return (row) => {
    const leaf = places.map((place) => row[place] ?? null);
    if (leaf[LEAF_AT] !== text) {
      text = leaf[LEAF_AT] ?? '';
      us = String(microsecondsOf(text));
    }
    leaf[LEAF_AT] = us;
    return leaf;
  };
}

/** Converts rows of `log_batch` to batches. */
export function batchesOf(rows: TableRows): (row: Row) => BatchRow {
  const [shard, lastPosition, eventCount, instance, batchNo, at, format, chain] = rows.columnIndexes([
    'shard',
    'last_position',
    'event_count',
    'instance',
    'batch_no',
    'at',
    'format',
    'chain',
  ]) as [number, number, number, number, number, number, number, number];
  const text = (row: Row, place: number): string => row[place] ?? '';
  return (row) => ({
    shard: text(row, shard),
    lastPosition: text(row, lastPosition),
    eventCount: text(row, eventCount),
    instance: text(row, instance),
    batchNo: text(row, batchNo),
    at: String(microsecondsOf(text(row, at))),
    format: text(row, format),
    chain: bytesOf(text(row, chain)),
  });
}

/** Parses PostgreSQL's hex format of bytea. */
export const bytesOf = (text: string): Buffer => Buffer.from(text.replace(/^\\x/, ''), 'hex');

import { readFile, type Row, rowsIn } from '#db/backup/file.ts';
import type { TableFile } from '#db/backup/manifest.ts';
import type { BatchRow, LeafRow } from '#db/log/chain.ts';
import { COLUMN_NAMES } from '#db/log/columns.ts';

/** The rows of a table's file, one after the other. */
export class Rows {
  readonly #columns: readonly string[];
  readonly #pages: AsyncGenerator<Row[]>;
  #page: Row[] = [];
  #at = 0;
  /** How many were taken. */
  taken = 0;

  constructor(directory: string, file: TableFile) {
    this.#columns = file.columns;
    this.#pages = rowsIn(readFile(directory, file), file);
  }

  /** The next one, which stays the next; undefined behind the last. */
  async peek(): Promise<Row | undefined> {
    while (this.#at === this.#page.length) {
      const { value, done } = await this.#pages.next();
      if (done === true) return undefined;
      this.#page = value;
      this.#at = 0;
    }
    return this.#page[this.#at];
  }

  /** Takes the one that was looked at. */
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

  /** Where these columns stand in a row, -1 for one that was not there yet. */
  places(names: readonly string[]): number[] {
    return names.map((name) => this.#columns.indexOf(name));
  }

  /** Lets go of the file. */
  async close(): Promise<void> {
    await this.#pages.return(undefined);
  }
}

/**
 * Times as leaves and batches have them: microseconds since 1970, of Postgres' ISO spelling in UTC. Not a
 * number where it is none.
 */
export function microsecondsOf(text: string): number {
  const [, date = '', time = '', fraction = ''] =
    /^(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00$/.exec(text) ?? [];
  return Date.parse(`${date}T${time}Z`) * 1_000 + Number(fraction.padEnd(6, '0'));
}

const LEAF_AT = COLUMN_NAMES.indexOf('at');

/** Makes leaves of rows of the log, in the order of their columns there. */
export function leavesOf(rows: Rows): (row: Row) => LeafRow {
  const places = rows.places(COLUMN_NAMES);
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

/** Makes batches of rows of their table. */
export function batchesOf(rows: Rows): (row: Row) => BatchRow {
  const [shard, lastPosition, eventCount, instance, batchNo, at, format, chain] = rows.places([
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

/** Bytes as Postgres spells them in hexadecimal. */
export const bytesOf = (text: string): Buffer => Buffer.from(text.replace(/^\\x/, ''), 'hex');

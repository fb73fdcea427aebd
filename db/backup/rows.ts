import { BackupDamageError, readFile, type Row, rowsIn } from '#db/backup/file.ts';
import type { TableFile } from '#db/backup/manifest.ts';
import type { BatchRow } from '#db/log/chain.ts';
import { AT, FIELDS } from '#db/log/columns.ts';
import { cellsOf, entryOf } from '#db/log/line.ts';

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

/** Remembers the newest time: each is in the rows of its batch in several files, which are read in step. */
export class Times {
  #text = '';
  #us = '';

  /** A time in microseconds since 1970. */
  usOf(text: string): string {
    if (text !== this.#text) [this.#text, this.#us] = [text, String(microsecondsOf(text))];
    return this.#us;
  }
}

/** Converts rows of `log_batch` to batches. */
export function batchesOf(rows: TableRows, times: Times): (row: Row) => BatchRow {
  const names = ['shard', 'last_position', 'event_count', 'instance', 'batch_no', 'at', 'format', 'chain'];
  const places = rows.columnIndexes(names);
  return (row) => {
    const [shard, lastPosition, eventCount, instance, batchNo, at, format, chain] = places.map(
      (place) => row[place] ?? '',
    ) as [string, string, string, string, string, string, string, string];
    return {
      shard,
      lastPosition,
      eventCount,
      instance,
      batchNo,
      at: times.usOf(at),
      format,
      chain: bytesOf(chain),
    };
  };
}

/** The events of a batch with the columns of its header that stand beside them. */
export type StoredEvents = Pick<BatchRow, 'shard' | 'lastPosition' | 'eventCount' | 'instance' | 'at'> & {
  events: string;
};

/** Converts rows of the log. */
export function eventsOf(rows: TableRows, times: Times): (row: Row) => StoredEvents {
  const places = rows.columnIndexes(['shard', 'last_position', 'event_count', 'instance', 'at', 'events']);
  return (row) => {
    const [shard, lastPosition, eventCount, instance, at, events] = places.map(
      (place) => row[place] ?? '',
    ) as [string, string, string, string, string, string];
    return { shard, lastPosition, eventCount, instance, at: times.usOf(at), events };
  };
}

/** A row of `control_event`: its entry, and whether its columns are those of its line. */
export type ControlRow = { position: number; entry: string; isConsistent: boolean };

const CONTROL_FIELDS = ['type', 'stream', 'version', 'account', 'key'] as const satisfies (keyof typeof AT)[];

/** Converts rows of `control_event`. */
export function controlRowsOf(rows: TableRows, times: Times): (row: Row) => ControlRow {
  const places = rows.columnIndexes(['shard', 'position', 'at', 'instance', 'line']);
  const fields = rows.columnIndexes(CONTROL_FIELDS);
  return (row) => {
    const [shard, position, at, instance, line] = places.map((place) => row[place] ?? '') as [
      string,
      string,
      string,
      string,
      string,
    ];
    const place = { shard: Number(shard), position: Number(position), instance: Number(instance) };
    return {
      position: place.position,
      entry: entryOf({ ...place, atUs: times.usOf(at) }, line),
      isConsistent: isLineOf(
        line,
        fields.map((field) => row[field] ?? null),
      ),
    };
  };
}

/** Whether a line has these values of {@link CONTROL_FIELDS}. */
function isLineOf(line: string, values: readonly (string | null)[]): boolean {
  try {
    const cells = cellsOf(line);
    return (
      cells.length === FIELDS.length &&
      CONTROL_FIELDS.every((name, index) => cells[AT[name]] === values[index])
    );
  } catch {
    return false;
  }
}

/** Parses PostgreSQL's hex format of bytea. */
export const bytesOf = (text: string): Buffer => Buffer.from(text.replace(/^\\x/, ''), 'hex');

/** Reads the rest of a file, which verifies its digest and its number of rows. */
export async function readToEnd(rows: TableRows, { file, rows: expected }: TableFile): Promise<void> {
  for await (const _ of rows);
  if (rows.taken !== expected)
    throw new BackupDamageError(
      `${file} of the backup is damaged: it holds ${rows.taken} rows, not ${expected}`,
    );
}

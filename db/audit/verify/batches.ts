import type { Batch, BatchRow } from '#db/log/chain.ts';

/** The rows of batches, in the order of the log. Pure. */

/** A row of `daybook.log`, with the header of its batch. Integers are text, `at` as in batches. */
export type LogRow = Pick<BatchRow, 'lastPosition' | 'eventCount' | 'instance' | 'at'> & {
  /** The lines of its events, joined by line feeds. */
  events: string;
};

/**
 * All that is stored of a batch. `row` is null without its row in `daybook.log_batch`, `log` without that in
 * `daybook.log`; `unreadable` says why the latter can't be read.
 */
export type StoredBatch = {
  last: number;
  row: BatchRow | null;
  log: LogRow | null;
  unreadable?: string;
};

/** The batch of a file, which states its header once. */
export const batchOfFile = ({ row, events }: Batch): StoredBatch => ({
  last: Number(row.lastPosition),
  row,
  log: logRowOf({ row, events }),
});

/** The batch of a file as a row of the log. */
export function logRowOf({ row, events }: Batch): LogRow {
  const { lastPosition, eventCount, instance, at } = row;
  return { lastPosition, eventCount, instance, at, events };
}

/**
 * Pairs the rows of both tables, each in ascending order. Two adjacent rows without a partner that agree in
 * all but their last position are of one batch: one of them was changed.
 */
export function pairRows(logs: readonly LogRow[], rows: readonly BatchRow[]): StoredBatch[] {
  const paired: StoredBatch[] = [];
  let at = 0;
  const addRowsBelow = (end: number): void => {
    for (let row = rows[at]; row !== undefined && Number(row.lastPosition) < end; row = rows[++at])
      add(paired, { last: Number(row.lastPosition), row, log: null });
  };
  for (const log of logs) {
    const last = Number(log.lastPosition);
    addRowsBelow(last);
    const row = rows[at]?.lastPosition === log.lastPosition ? (rows[at++] as BatchRow) : null;
    add(paired, { last, row, log });
  }
  addRowsBelow(Number.POSITIVE_INFINITY);
  return paired;
}

function add(paired: StoredBatch[], batch: StoredBatch): void {
  const before = paired.at(-1);
  const { row, log } = batch;
  if (row !== null && log === null && before?.row === null && isAlike(before.log, row)) before.row = row;
  else if (log !== null && row === null && before?.log === null && isAlike(log, before.row))
    paired[paired.length - 1] = { last: batch.last, row: before.row, log };
  else paired.push(batch);
}

const isAlike = (log: LogRow | null, row: BatchRow | null): boolean =>
  log !== null &&
  row !== null &&
  log.eventCount === row.eventCount &&
  log.instance === row.instance &&
  log.at === row.at;

import { hash } from 'node:crypto';
import { entryOf, type LinePlace } from '#db/log/line.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/**
 * The hash chain over the log, as Postgres computes it in `daybook.write_batch`, written a second time
 * so that an auditor need not trust the database to check itself. Pure.
 *
 * leaf  = SHA-256(0x00 ‖ entry)                                         RFC 6962 leaf
 * chain = SHA-256(previous chain ‖ SHA-256(lines of the batch) ‖ text of the batch row)
 */

/** The format of lines, which each batch states: those with the fields of {@link FIELDS}. */
export const LINE_FORMAT = '1';

/** A stored batch row; integers in text form, `at` in microseconds since 1970. */
export type BatchRow = {
  shard: string;
  lastPosition: string;
  eventCount: string;
  instance: string;
  batchNo: string;
  at: string;
  format: string;
  chain: Buffer;
};

/** A batch with its events: their lines, joined by line feeds. */
export type Batch = { row: BatchRow; events: string };

/** A batch as `daybook.log` has it, which is all that its entries take. */
export type BatchEvents = {
  row: Pick<BatchRow, 'shard' | 'lastPosition' | 'eventCount' | 'instance' | 'at'>;
  events: string;
};

/** The RFC 6962 leaf hash of an entry. */
export function leafHash(entry: string): Buffer {
  return hash('sha256', `\0${entry}`, 'buffer');
}

/** The entries of a batch, in the order of their positions. */
export function entriesOf({ row, events }: BatchEvents): string[] {
  const lines = events.split('\n');
  const place: LinePlace = {
    shard: Number(row.shard),
    position: Number(row.lastPosition) - lines.length,
    atUs: row.at,
    instance: Number(row.instance),
  };
  return lines.map((line) => {
    place.position++;
    return entryOf(place, line);
  });
}

/** The chain value before the first batch of a log. */
export function genesis(logId: string): Buffer {
  return hash('sha256', `daybook log ${logId}`, 'buffer');
}

/** The chain value that a batch must carry, given the one before it. */
export function linkBatch(previous: Buffer, { row, events }: Batch): Buffer {
  const text = batchRowText(row);
  // One call over one buffer takes half the time of a digest that is updated three times.
  const linked = Buffer.allocUnsafe(2 * HASH_BYTES + text.length);
  previous.copy(linked);
  linked.write(hash('sha256', events, 'latin1'), HASH_BYTES, 'latin1');
  linked.write(text, 2 * HASH_BYTES, 'latin1');
  return hash('sha256', linked, 'buffer');
}

/** The text of a batch row, which the chain covers. */
export function batchRowText(row: BatchRow): string {
  const { shard, lastPosition, eventCount, instance, batchNo, at, format } = row;
  return `(${shard},${lastPosition},${eventCount},${instance},${batchNo},${at},${format})`;
}

/** Where a log stops agreeing with its chain, and in what way. */
export type Damage = { position: number; problem: string };

/**
 * Checks a batch against the chain.
 * @param start the end of the chain before it.
 * @returns null when it agrees, else the first position that is damaged, as far as known.
 */
export function verifyBatch(start: { position: number; chain: Buffer }, batch: Batch): Damage | null {
  const position = start.position + 1;
  const count = Number(batch.row.eventCount);
  if (Number(batch.row.lastPosition) !== start.position + count)
    return { position, problem: 'batch row disagrees' };
  const lines = countLines(batch.events);
  if (lines < count) return { position: position + lines, problem: 'missing' };
  if (lines > count) return { position: position + count, problem: 'belongs to no batch' };
  if (batch.row.format !== LINE_FORMAT) return { position, problem: 'unknown format' };
  return linkBatch(start.chain, batch).equals(batch.row.chain) ? null : { position, problem: 'hash differs' };
}

/** How many lines a batch's text has. */
export function countLines(events: string): number {
  let count = 1;
  for (let at = events.indexOf('\n'); at >= 0; at = events.indexOf('\n', at + 1)) count++;
  return count;
}

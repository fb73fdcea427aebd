import { z } from 'zod';
import { type Batch, type BatchRow, batchRowText } from '#db/log/chain.ts';
import { AT_US } from '#db/log/columns.ts';

/**
 * The text of an archive file: the header, which is JSON, then each batch of the log, as a line for the batch
 * and the lines of its events, as they are stored. The line of a batch is its chain value in hexadecimal and
 * the text that the chain covers beside the events; see docs/audit-format.md. Pure.
 */

export const Hash = z.string().regex(/^[0-9a-f]{64}$/);
const Position = z.int().nonnegative();

/** The first line of a file. */
export const Header = z.strictObject({
  archive: z.literal('daybook log 1'),
  log_id: z.uuid(),
  shard: z.int().nonnegative(),
  /** The number of its partition; null for an exported range. */
  partition: z.int().nonnegative().nullable(),
  /** Of its first batch's first event, and of its last batch's last one. */
  first_position: Position,
  last_position: Position,
  /** The chain value of the batch before the file. */
  chain_before: Hash,
});
export type Header = z.infer<typeof Header>;

/** The first character of an event's line, which begins no other line. */
const EVENT_START = '(';
const OTHER_LINE = /\n[^(]/g;

/**
 * The line of a batch in SQL. What readers of the log take from its own row is taken from there, so that a
 * file proves it.
 * @param log the alias of the log's table, or of one with its columns. @param batch that of `log_batch`.
 */
export const batchLineSql = (log: string, batch: string): string =>
  `encode(${batch}.chain, 'hex') || ' ' || row(${log}.shard, ${log}.last_position, ${log}.event_count,
    ${log}.instance, ${batch}.batch_no, ${AT_US.replace(/\bat\b/, `${log}.at`)}, ${batch}.format)::text`;

const BATCH = /^([0-9a-f]{64}) \((\d+),(\d+),(\d+),(\d+),(\d+),(\d+),(\d+)\)$/;

/** The row of a batch's line. @throws {Error} when it is not the line of a batch. */
export function parseBatchLine(line: string): BatchRow {
  const [, chain, shard, lastPosition, eventCount, instance, batchNo, at, format] = BATCH.exec(line) ?? [];
  if (chain === undefined) throw new Error('a line is neither that of a batch nor that of an event');
  return {
    shard: shard as string,
    lastPosition: lastPosition as string,
    eventCount: eventCount as string,
    instance: instance as string,
    batchNo: batchNo as string,
    at: at as string,
    format: format as string,
    chain: Buffer.from(chain, 'hex'),
  };
}

/** A batch as the lines of a file, each with its line break. */
export const batchText = ({ row, events }: Batch): string =>
  `${row.chain.toString('hex')} ${batchRowText(row)}\n${events}\n`;

/** Where the next line that is not an event's begins, in a text that begins with a line; -1 if none does. */
export function otherLineFrom(text: string, from: number): number {
  if (from < text.length && text[from] !== EVENT_START) return from;
  OTHER_LINE.lastIndex = from;
  const found = OTHER_LINE.exec(text);
  return found === null ? -1 : found.index + 1;
}

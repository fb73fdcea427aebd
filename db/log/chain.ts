import { createHash, hash } from 'node:crypto';
import { AT_US, leafColumns } from '#db/log/columns.ts';

/**
 * The hash chain over the log, as Postgres computes it in `daybook.append`, written a second time
 * so that an auditor need not trust the database to check itself. Pure.
 *
 * leaf  = SHA-256(0x00 ‖ text of the row)            RFC 6962 leaf
 * chain = SHA-256(previous chain ‖ SHA-256(leaves of the batch) ‖ text of the batch row)
 */

/** The columns that a leaf covers, in order, as SQL. Times are microseconds since 1970. */
export const LEAF_COLUMNS = leafColumns(AT_US);

/** The leaf format, which each batch states: a leaf covers {@link LEAF_COLUMNS}. */
export const LEAF_FORMAT = '1';

/** A stored row: every column of {@link LEAF_COLUMNS} in Postgres' text form, null for null. */
export type LeafRow = readonly (string | null)[];

/** A row, or its leaf hash alone where the row itself is not at hand. */
export type Leaf = LeafRow | Buffer;

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

/** A row in Postgres' text form of a composite value. */
export function compositeText(fields: LeafRow): string {
  // A loop over text that grows: twice as fast as an array that is joined.
  let text = '(';
  for (let index = 0; index < fields.length; index++) {
    const field = fields[index];
    if (index > 0) text += ',';
    if (field != null) text += compositeField(field);
  }
  return `${text})`;
}

/** What Postgres quotes a value for. Of white space that is what ASCII has: JavaScript's `\s` has more. */
const QUOTED_FOR = /[ \t\n\v\f\r"\\(),]/;

function compositeField(field: string): string {
  if (field !== '' && !QUOTED_FOR.test(field)) return field;
  return `"${field.replace(/["\\]/g, '$&$&')}"`;
}

/** The RFC 6962 leaf hash of one stored row. */
export function leafHash(row: LeafRow): Buffer {
  return hash('sha256', `\0${compositeText(row)}`, 'buffer');
}

/** The leaf hash of a row, or the hash itself. */
export function leafOf(leaf: Leaf): Buffer {
  return Buffer.isBuffer(leaf) ? leaf : leafHash(leaf);
}

/** The chain value before the first batch of a log. */
export function genesis(logId: string): Buffer {
  return hash('sha256', `daybook log ${logId}`, 'buffer');
}

/** The chain value that a batch must carry, given the one before it and its rows in order. */
export function linkBatch(previous: Buffer, rows: readonly Leaf[], batch: BatchRow): Buffer {
  const leaves = createHash('sha256');
  for (const row of rows) leaves.update(leafOf(row));
  const header = compositeText([
    batch.shard,
    batch.lastPosition,
    batch.eventCount,
    batch.instance,
    batch.batchNo,
    batch.at,
    batch.format,
  ]);
  return createHash('sha256').update(previous).update(leaves.digest()).update(header).digest();
}

/** Where a log stops agreeing with its chain, and in what way. */
export type Damage = { position: number; problem: string };

/**
 * Checks batches and their rows against the chain, in log order, from a trusted starting point.
 * @param rows the rows of exactly these batches, in position order. A leaf hash that stands for a row
 *   proves the others of its batch; of itself it says nothing.
 * @returns null when all agree, else the first invalid position that can be located: the first missing or
 *   surplus position, or the first of the batch whose hash differs.
 */
export function verifyBatches(
  start: { position: number; chain: Buffer },
  batches: readonly BatchRow[],
  rows: readonly Leaf[],
): Damage | null {
  let chain = start.chain;
  let next = start.position + 1;
  let used = 0;
  for (const batch of batches) {
    const count = Number(batch.eventCount);
    // First of all, since a wrong count would lay the blame on rows of later batches.
    if (Number(batch.lastPosition) !== next + count - 1)
      return { position: next, problem: 'batch row disagrees' };
    const own = rows.slice(used, used + count);
    for (const [index, row] of own.entries()) {
      if (!Buffer.isBuffer(row) && Number(row[1]) !== next + index)
        return { position: next + index, problem: 'missing or out of order' };
    }
    if (own.length < count) return { position: next + own.length, problem: 'missing' };
    if (batch.format !== LEAF_FORMAT) return { position: next, problem: 'unknown format' };
    chain = linkBatch(chain, own, batch);
    if (!chain.equals(batch.chain)) return { position: next, problem: 'hash differs' };
    next += count;
    used += count;
  }
  if (used < rows.length) return { position: next, problem: 'belongs to no batch' };
  return null;
}

import type { LogRow } from '#db/audit/verify/batches.ts';
import { type HashText, hashText } from '#db/audit/verify/tree.ts';
import { SHARD } from '#db/log/append.ts';
import { type BatchRow, batchRowText, LINE_FORMAT } from '#db/log/chain.ts';
import { HASH_BYTES } from '#db/tlog/merkle.ts';

/** The hash chain, and which values of a batch it confirms. Pure. */

/** What a row of the log states of its batch, and how findings name it. */
const STATED = {
  lastPosition: 'last position',
  eventCount: 'event count',
  instance: 'instance',
  at: 'time',
} as const satisfies Partial<Record<keyof LogRow, string>>;
const STATED_NAMES = Object.keys(STATED) as (keyof typeof STATED)[];

/** The values in which two rows of a batch differ, as text; null if they agree. */
export function differenceOf(one: Omit<LogRow, 'events'>, other: Omit<LogRow, 'events'>): string | null {
  if (STATED_NAMES.every((name) => one[name] === other[name])) return null;
  return STATED_NAMES.flatMap((name) => (one[name] === other[name] ? [] : [STATED[name]])).join(' and ');
}

/** Two hashes and the text of a batch row, which has seven integers. */
const LINK = Buffer.alloc(2 * HASH_BYTES + 256);

/** The chain hash of a batch after another one. @param digest the SHA-256 of its events. */
export function linkOf(before: HashText, digest: HashText, header: BatchRow): HashText {
  LINK.write(before, 0, 'latin1');
  LINK.write(digest, HASH_BYTES, 'latin1');
  return hashText(
    LINK.subarray(0, 2 * HASH_BYTES + LINK.write(batchRowText(header), 2 * HASH_BYTES, 'latin1')),
  );
}

/**
 * A batch with the values that its chain hash confirms. `at` is the index of the link that it continues, -1
 * if none confirms any values, and `recomputed` its hash after the first link; both null without a link.
 */
export type Linked = { header: BatchRow; at: number | null; recomputed: HashText | null };

/**
 * Finds the values of a batch that its chain hash confirms: those of its row, or else those that the log's
 * row states, each as stated or in the known format.
 * @param links the hashes that it can continue.
 */
export function linkBatch(links: readonly HashText[], stored: HashText, row: BatchRow, log: LogRow): Linked {
  if (links.length === 0) return { header: row, at: null, recomputed: null };
  const digest = hashText(log.events);
  const recomputed = linkOf(links[0] as HashText, digest, row);
  if (recomputed === stored) return { header: row, at: 0, recomputed };
  for (const header of headersOf(row, log)) {
    const at = links.findIndex((before) => linkOf(before, digest, header) === stored);
    if (at >= 0) return { header, at, recomputed };
  }
  return { header: row, at: -1, recomputed };
}

/**
 * The values that a batch may have had before one of its rows was changed: first those that its row states,
 * then those that the log's row states, then both in the known shard and format.
 */
export function headersOf(row: BatchRow, log: LogRow): BatchRow[] {
  const { lastPosition, eventCount, instance, at } = log;
  const headers = [
    row,
    ...(differenceOf(row, log) === null ? [] : [{ ...row, lastPosition, eventCount, instance, at }]),
  ];
  if (row.shard === KNOWN.shard && row.format === KNOWN.format) return headers;
  return [...headers, ...headers.map((header) => ({ ...header, ...KNOWN }))];
}

const KNOWN = { shard: String(SHARD), format: LINE_FORMAT };

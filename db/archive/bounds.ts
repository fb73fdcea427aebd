import { assertIncreasing } from '#db/assert-increasing.ts';
import { ENTRY_BYTES_MAX } from '#db/log/bounds.ts';

/** Bounds of exporting, verifying and restoring partitions, and of the files that they are in. */

/** Events per query: about 1.5 MB of text. */
export const PAGE_EVENTS = 5_000;
/** Pages buffered for the compressor. */
export const WAITING_PAGES_MAX = 2;
/** Events buffered until the row of their batch: many times the largest batch ever appended. */
export const BATCH_EVENTS_MAX = 1_000_000;

/** Compressed bytes per read: a few hundred lines, which take a millisecond or two. */
export const READ_BYTES = 32 * 1024;
/** The longest lines are headers, and events of the greatest length. */
export const LINE_BYTES_MAX = 16 * 1024 * 1024;
/** Headers have a few hundred leaf hashes at most. */
export const HEADER_BYTES_MAX = 128 * 1024 * 1024;

/** Short, since other sessions queue behind the lock request. */
export const LOCK_TIMEOUT_MS = 500;
/** A detach that waits for an older transaction is canceled, and finished by a later run. */
export const DETACH_TIMEOUT_MS = 10_000;

assertIncreasing(
  { READ_BYTES, ENTRY_BYTES_MAX, LINE_BYTES_MAX, HEADER_BYTES_MAX },
  'A line must hold any event, and a header is at least a line.',
);
assertIncreasing({ PAGE_EVENTS, BATCH_EVENTS_MAX }, 'A batch may span several pages.');
assertIncreasing({ LOCK_TIMEOUT_MS, DETACH_TIMEOUT_MS }, 'A detach must be able to request its lock.');

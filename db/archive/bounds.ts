import { assertIncreasing } from '#db/assert-increasing.ts';
import { ENTRY_BYTES_MAX } from '#db/log/bounds.ts';

/** Bounds of exporting, verifying and restoring partitions, and of the files that they are in. */

/** Events per query, about: it returns whole batches. About 0.6 MB of text. */
export const PAGE_EVENTS = 5_000;
/** Pages buffered for the compressor. */
export const WAITING_PAGES_MAX = 2;

/** Compressed bytes per read. */
export const READ_BYTES = 32 * 1024;
/** Decompressed bytes per read: a thousand lines, which take a millisecond or two. */
export const TEXT_BYTES = 128 * 1024;
/** The longest lines are events of the greatest length. */
export const LINE_BYTES_MAX = 1024 * 1024;
/** Buffered until the batch ends: many times the largest batch ever appended. */
export const BATCH_CHARACTERS_MAX = 256 * 1024 * 1024;

/** Short, since other sessions queue behind the lock request. */
export const LOCK_TIMEOUT_MS = 500;
/** A detach that waits for an older transaction is canceled, and finished by a later run. */
export const DETACH_TIMEOUT_MS = 10_000;

assertIncreasing(
  { READ_BYTES, ENTRY_BYTES_MAX, TEXT_BYTES, LINE_BYTES_MAX, BATCH_CHARACTERS_MAX },
  'A line must hold any event, and a batch many lines.',
);
assertIncreasing({ LOCK_TIMEOUT_MS, DETACH_TIMEOUT_MS }, 'A detach must be able to request its lock.');

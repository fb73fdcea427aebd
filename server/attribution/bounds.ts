import { assertIncreasing } from '#db/assert-increasing.ts';
import { TAGS_MAX } from '#db/events/attribution-events.ts';
import { VALUE_BYTES_MAX } from '#db/attribution/value.ts';

/** Fixed bounds of reading and storing end users, sessions and tags, each with its reason. */

/** Tags of one call that are looked at for the first eight valid ones. */
export const TAGS_READ_MAX = 64;
/** A longer text holds no value, not even with others beside it. */
export const TEXT_CHARACTERS_MAX = 4_096;
/** The largest `metadata` that is read: OpenAI's has at most 16 members of 576 characters. */
export const METADATA_BYTES_MAX = 16 * 1024;

assertIncreasing(
  { VALUE_BYTES_MAX, TEXT_CHARACTERS_MAX, METADATA_BYTES_MAX },
  'A text must hold a value among others, and metadata more than one text.',
);
assertIncreasing({ TAGS_MAX, TAGS_READ_MAX }, 'More tags must be looked at than a call can have.');

/**
 * Values of this process whose pseudonyms are remembered: a call with them costs no HMAC. At most some
 * 60 MB, with values of the greatest length; usually a fifth of that.
 */
export const CACHED_VALUES_MAX = 100_000;
/** Accounts whose keys this process remembers. */
export const CACHED_KEYS_MAX = 10_000;
/**
 * New readable values of one account that one process stores in a day: an agent that makes up an id for each
 * call fills no disk. The pseudonyms of the others are recorded all the same.
 */
export const READABLE_PER_DAY_MAX = 100_000;
/** Values waiting to be stored: some seconds of the highest rate. */
export const STORE_QUEUE_MAX = 10_000;
/** Values that are stored at once: their encryption blocks the process for about two milliseconds. */
export const STORE_BATCH_MAX = 200;
/** How long a new value may wait for others: nothing depends on it but its display. */
export const STORE_LINGER_MS = 250;
/** The pause after the database or the master key was not available. */
export const UNAVAILABLE_MS = 5_000;
/** Connections of this process for keys and values: a key doesn't wait while values are stored. */
export const STORE_CONNECTIONS_MAX = 2;
/** An idle connection is closed after this long. */
export const STORE_IDLE_MS = 10_000;
/** Calls and values that could not be attributed or stored are reported once in this interval. */
export const REPORT_MS = 60_000;
/** How often values past their retention are deleted, a part at a time. */
export const EXPIRE_MS = 600_000;

assertIncreasing(
  { STORE_BATCH_MAX, STORE_QUEUE_MAX, CACHED_VALUES_MAX },
  'The queue must hold more than one batch, and queued values must be remembered.',
);
assertIncreasing(
  { STORE_LINGER_MS, UNAVAILABLE_MS, REPORT_MS, EXPIRE_MS },
  'A value is stored long before its absence is reported.',
);

import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of requests with an idempotency key, each with its reason. */

const MIB = 1024 * 1024;

/** The longest value of the header, as Stripe's. */
export const KEY_CHARACTERS_MAX = 255;
/** Keys of one account in a day: its rows take about 25 MB. */
export const KEYS_PER_ACCOUNT_MAX = 100_000;
/** Compressed replies of one account that are kept at the same time. */
export const KEPT_BYTES_PER_ACCOUNT_MAX = 1024 * MIB;
/** A longer reply is not kept. The longest texts are streamed as some megabytes. */
export const KEPT_REPLY_BYTES_MAX = 4 * MIB;
/** The head beside the body of a kept reply. */
export const KEPT_HEAD_BYTES_MAX = 64 * 1024;
/** Requests that wait for the same call on one server. */
export const JOINED_MAX = 16;
/** How often a server counts the keys and replies of an account that is in use. */
export const RECOUNT_MS = 10_000;
/** Accounts whose counts are remembered. */
export const COUNTED_ACCOUNTS_MAX = 10_000;
/** The first look whether a request on another server has ended, and the pause between later ones. */
export const FIRST_LOOK_MS = 50;
export const LOOK_EVERY_MS = 1_000;
/** Ends of requests that wait to be written while the database is not available. */
export const UNWRITTEN_MAX = 10_000;
export const WRITE_RETRY_MS = 1_000;
/** Connections for keys and replies; they are opened on demand. */
export const KEY_CONNECTIONS_MAX = 4;
export const KEY_IDLE_MS = 60_000;

assertIncreasing(
  { KEPT_HEAD_BYTES_MAX, KEPT_REPLY_BYTES_MAX, KEPT_BYTES_PER_ACCOUNT_MAX },
  'An account must be able to keep more than one reply of the greatest length.',
);
assertIncreasing(
  { FIRST_LOOK_MS, LOOK_EVERY_MS, RECOUNT_MS },
  'The end of a request must be noticed long before an account is counted again.',
);

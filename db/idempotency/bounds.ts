import { assertIncreasing } from '#db/assert-increasing.ts';

/** How long an idempotency key stays claimed: as long as Stripe's. */
export const KEY_HOURS = 24;
/** Kept replies of this age are deleted by the next hourly run of `retain`, before they are a day old. */
export const REPLY_HOURS = 23;
/** Rows that one statement deletes. */
export const DELETED_ROWS_MAX = 1_000;

assertIncreasing({ REPLY_HOURS, KEY_HOURS }, 'No reply must be kept for longer than its key.');

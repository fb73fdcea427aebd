import { assertIncreasing } from '#db/assert-increasing.ts';
import { STORED_REPLY_MS } from '#server/stored/bounds.ts';

/** Fixed bounds of counts of tokens, each with its reason. */

/**
 * Counts of one key in a minute at one server process: an agent counts before each of its calls, and
 * providers take some thousands in a minute.
 */
export const COUNTS_PER_MINUTE_MAX = 1_000;
/** An upstream that doesn't count within this time is not waited for: the client gets an estimate. */
export const COUNT_REPLY_MS = 10_000;

assertIncreasing({ COUNT_REPLY_MS, STORED_REPLY_MS }, 'A count must not take as long as a stored response.');

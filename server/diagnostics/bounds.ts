import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of the lines about requests, each with its reason. */

/** Lines are counted over such a span. */
export const LINES_WINDOW_MS = 10_000;
/**
 * Rejected requests that are logged in a window: a client that sends thousands of them a second fills no disk
 * (200 MB a day at most), and an operator still sees examples of each window.
 */
export const REJECTED_LINES_MAX = 100;
/** Failed requests, attempts and connections that are logged in a window: faults are worth more lines. */
export const FAILED_LINES_MAX = 300;

/** An id or trace context that a client sends is kept up to this length. */
export const CLIENT_ID_CHARACTERS_MAX = 128;

/** A tracestate has at most this length by its specification. */
export const TRACESTATE_CHARACTERS_MAX = 512;

assertIncreasing({ REJECTED_LINES_MAX, FAILED_LINES_MAX }, 'Rejections may not displace failures.');

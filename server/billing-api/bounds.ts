import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of requests to providers' billing APIs, each with its reason. */

const MIB = 1024 * 1024;

/** A page of 31 days with some thousand groups each; 300 bytes a group. */
export const PAGE_BYTES_MAX = 64 * MIB;
/** All pages of one import, which are in memory until they are parsed. */
export const REPORTS_BYTES_MAX = 400 * MIB;
/** A report of ten years of days in pages of 7. A cursor that never ends is a fault of the provider. */
export const PAGES_MAX = 600;

export const CONNECT_TIMEOUT_MS = 10_000;
/** Reports of large organizations are computed when they are requested. */
export const REQUEST_TIMEOUT_MS = 60_000;
/** Of one request, with its first. */
export const ATTEMPTS_MAX = 6;
/** The backoff before the second attempt, doubled for each further one. */
export const RETRY_PAUSE_MS = 1_000;
/** A longer Retry-After ends the import: its rate limits are per minute. */
export const RETRY_AFTER_MAX_MS = 120_000;
/** Of a whole import, pauses included. */
export const IMPORT_TIMEOUT_MS = 30 * 60 * 1_000;

/** The longest interval of one import. */
export const IMPORT_DAYS_MAX = 366;

assertIncreasing(
  { CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS, IMPORT_TIMEOUT_MS },
  'A request must be able to end before its import is given up.',
);
assertIncreasing(
  {
    'RETRY_PAUSE_MS * 2 ** (ATTEMPTS_MAX - 1)': RETRY_PAUSE_MS * 2 ** (ATTEMPTS_MAX - 1),
    RETRY_AFTER_MAX_MS,
    IMPORT_TIMEOUT_MS,
  },
  'An import must outlast the pauses of a request.',
);

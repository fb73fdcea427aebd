import { assertIncreasing } from '#db/assert-increasing.ts';

/** Bounds of the projections' tables that both retention and reports rely on. */

/** Reports offer usage by the minute for this long. */
export const USAGE_MINUTES_SHOWN_HOURS = 48;
/**
 * Retention keeps usage by the minute for this long: an hour more, so that the hour in which a report
 * begins is complete. An account's hours, and all days, are kept forever.
 */
export const USAGE_MINUTES_KEPT_HOURS = 49;

assertIncreasing(
  { USAGE_MINUTES_SHOWN_HOURS, USAGE_MINUTES_KEPT_HOURS },
  'The minutes of a report must be there, with the whole hour that it begins in.',
);

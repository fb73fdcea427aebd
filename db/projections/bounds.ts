import { assertIncreasing } from '#db/assert-increasing.ts';

/** Bounds of the projections' tables that both retention and reports rely on. */

/** Reports offer usage by the minute for this long. */
export const USAGE_MINUTES_SHOWN_HOURS = 48;
/**
 * Retention keeps usage by the minute for this long: an hour more, so that the hour in which a report
 * begins is complete. An account's hours, and all days, are kept forever.
 */
export const USAGE_MINUTES_KEPT_HOURS = 49;

/** Forecasts read this many weeks of usage by hour. */
export const USAGE_HISTORY_WEEKS = 8;
/** Retention keeps a day more, so that the day in which the weeks begin is complete. */
export const USAGE_HISTORY_KEPT_DAYS = 7 * USAGE_HISTORY_WEEKS + 1;

assertIncreasing(
  { USAGE_MINUTES_SHOWN_HOURS, USAGE_MINUTES_KEPT_HOURS },
  'The minutes of a report must be there, with the whole hour that it begins in.',
);

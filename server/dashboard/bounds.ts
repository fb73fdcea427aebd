import { LISTED_MAX } from '#server/contract/parts.ts';
import { assertIncreasing } from '#db/assert-increasing.ts';
import { KEYS_ACTIVE_MAX } from '#server/decide/bounds.ts';

/** Fixed bounds of the dashboard's own API, each with its reason. */

const KIB = 1024;

/**
 * Positions of the log that one step looks at for events that fit a filter: some ten milliseconds, and some
 * hundred for the steps of a page.
 */
export const EVENTS_STEP_POSITIONS = 20_000;
export const EVENTS_STEPS_MAX = 8;
/** Control events that one step looks at. */
export const EVENTS_CONTROL_LOOK_MAX = 5_000;
/** Requests of an account or key that are read to find the part of the log without its events. */
export const EVENTS_SKIP_ROWS_MAX = 2_000;
/**
 * Events of an export, and the steps in which the log is looked through for it. Who wants more asks for the
 * next part.
 */
export const EVENTS_EXPORT_MAX = 100_000;
export const EVENTS_EXPORT_STEPS_MAX = 500;
/** Events of an account that are searched for its newest top-ups. */
export const TOP_UP_EVENTS_MAX = 500;
/** Accounts below one that its details name. */
export const CHILDREN_LISTED_MAX = 100;
/** Adjustments of one account's list; the audit log has the others. */
export const ADJUSTMENTS_LISTED_MAX = 50;
/** Alerts and deliveries of one list, and the alerts that are looked at for those of one account. */
export const ALERTS_LISTED_MAX = 100;
export const ALERTS_LOOK_MAX = 10_000;
export const DELIVERIES_LISTED_MAX = 50;
/** Attempts of one delivery that are shown: the worker makes fewer. */
export const ATTEMPTS_SHOWN_MAX = 50;
/** Comparisons of bills of one list, the newest ones. */
export const RECONCILIATIONS_SHOWN_MAX = 100;
/** Invoices and credit notes of one list, the newest ones. */
export const INVOICES_LISTED_MAX = 500;
/** Names that a search looks at before other work of the process has its turn: some hundred microseconds. */
export const SEARCH_SLICE = 2_000;
/** A body of the dashboard's own API: the longest are a plan's terms. */
export const DASHBOARD_BODY_BYTES_MAX = 64 * KIB;
/** The state of a file with some thousand prices. */
export const DESIRED_STATE_BYTES_MAX = 1024 * KIB;

assertIncreasing(
  { 'KEYS_ACTIVE_MAX - 1': KEYS_ACTIVE_MAX - 1, LISTED_MAX },
  'A list must have room for all active keys of an account.',
);
assertIncreasing(
  { EVENTS_SKIP_ROWS_MAX, EVENTS_CONTROL_LOOK_MAX, EVENTS_STEP_POSITIONS },
  'One step must look at more of the log than the events that it picks from it.',
);
assertIncreasing(
  { EVENTS_STEPS_MAX, EVENTS_EXPORT_STEPS_MAX },
  'An export must look through more of the log than a page does.',
);
assertIncreasing(
  { ALERTS_LISTED_MAX, ALERTS_LOOK_MAX },
  'A list of alerts must look at more of them than it shows.',
);

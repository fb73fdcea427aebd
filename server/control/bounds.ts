import { QUERY_TIMEOUT_MS } from '#db/bounds.ts';
import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of changes to accounts, keys, prices and destinations, each with its reason. */

/** Changes that wait for one another: each takes some milliseconds. */
export const CONTROL_WAITING_MAX = 100;
/** Waiting changes of one person, who can't fill the queue alone. */
export const CONTROL_WAITING_PER_MEMBER_MAX = 20;
/** Changes of one person per hour and process: one in six seconds, and each stays in the log. */
export const CHANGES_PER_HOUR_MAX = 600;
/** How long a change waits for those before it: a person's patience, and two timeouts of the store. */
export const CONTROL_WAIT_MS = 5_000;
/** The connection for changes is closed when it was not used for this long. */
export const CONTROL_IDLE_MS = 60_000;

/** Prices of one import, which is one append: those of all providers of the installed list. */
export const PRICES_IMPORT_MAX = 2_000;

/** Events of one applied file, in one append, which locks the log for a time that calls don't notice. */
export const APPLIED_EVENTS_MAX = 1_000;
/** Changes by others that a difference names: the newest ones. The log has the others. */
export const DRIFT_EVENTS_MAX = 10;
/**
 * Requests that are repriced in one transaction: it holds the lock of the log for some 30 ms, and a call that
 * is waiting for its append that long.
 */
export const REPRICE_REQUESTS = 1_000;
/** Attempts of such a batch when another process corrects one of its requests meanwhile. */
export const REPRICE_ATTEMPTS_MAX = 5;

/** Calls of the log whose corrections are read at once while a bill is compared. */
export const RECONCILE_CALLS = 2_000;
/** Attempts to correct a request when another process corrects it meanwhile. */
export const RECONCILE_APPLY_ATTEMPTS_MAX = 5;
/** Comparisons that are listed, the newest ones: three years of one a day. */
export const RECONCILIATIONS_LISTED_MAX = 1_000;

/** Every alert is sent to each destination: more is a mailing list, which is the receiver's to keep. */
export const DESTINATIONS_MAX = 50;
export const DESTINATION_URL_CHARACTERS_MAX = 2_000;
/** Recipients of an account's statements: more is a mailing list, which is the receiver's to keep. */
export const RECIPIENTS_MAX = 10;
/** Emails of statements of one list, the newest ones. */
export const EMAILS_LISTED_MAX = 50;
/** Sinks: each may read the whole log once more. */
export const SINKS_MAX = 20;

assertIncreasing(
  { CONTROL_WAITING_PER_MEMBER_MAX, CONTROL_WAITING_MAX },
  'One person must not fill the queue of changes alone.',
);
assertIncreasing(
  { '2 * QUERY_TIMEOUT_MS': 2 * QUERY_TIMEOUT_MS, CONTROL_WAIT_MS, CONTROL_IDLE_MS },
  'A change must outwait a timeout of the one before it, and its connection must still be open.',
);

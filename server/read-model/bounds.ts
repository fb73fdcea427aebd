import { QUERY_TIMEOUT_MS } from '#db/bounds.ts';
import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of the read model, each with its reason. */

/**
 * The read model is current when it has read the log's head within this time. Keys that were revoked since
 * then could still pass, so beyond it no call is admitted.
 */
export const READ_MODEL_STALE_MS = 5_000;
/** Model names whose price is cached. */
export const PRICES_FOUND_MAX = 10_000;
/** How long the reply to a change waits until this process has read the change from the log. */
export const CATCH_UP_WAIT_MS = 2_000;
/** Concurrent callers waiting for a predicate: more than changes can be pending. */
export const PENDING_PREDICATES_MAX = 1_000;

assertIncreasing(
  { QUERY_TIMEOUT_MS, READ_MODEL_STALE_MS },
  'One query that times out must not make the read model stale.',
);
assertIncreasing(
  { CATCH_UP_WAIT_MS, READ_MODEL_STALE_MS },
  'A change must be answered while the read model that it waits for is current.',
);

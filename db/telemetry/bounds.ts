import { assertIncreasing } from '#db/assert-increasing.ts';
import { QUERY_TIMEOUT_MS } from '#db/bounds.ts';

/** Fixed bounds of metrics, each with its reason. */

/** The value of a label whose own value is not configured, or is one too many. */
export const OTHER = 'other';

/**
 * Configured names that are values of a label in one process, the first ones that have calls. A page of a
 * dashboard shows fewer.
 */
export const MODEL_VALUES_MAX = 100;
export const UPSTREAM_VALUES_MAX = 100;
export const ACCOUNT_VALUES_MAX = 200;
/** Model and upstream together: most models have one or two upstreams. */
export const MODEL_UPSTREAM_VALUES_MAX = 200;

/** The interval of the looks at how late the event loop is. */
export const EVENT_LOOP_LOOK_MS = 100;

/** How long a scrape waits for another process: Prometheus gives up after ten seconds. */
export const SCRAPE_TIMEOUT_MS = 3_000;
/** Scrapes that are answered at the same time. They share the reads of one. */
export const SCRAPES_MAX = 20;
/** The endpoint reads a request's headers only. */
export const SCRAPE_HEADER_BYTES_MAX = 8 * 1024;

assertIncreasing(
  { QUERY_TIMEOUT_MS, SCRAPE_TIMEOUT_MS },
  'A scrape must outlast a database that does not reply.',
);
assertIncreasing(
  { MODEL_VALUES_MAX, MODEL_UPSTREAM_VALUES_MAX },
  'Each model must have room for an upstream.',
);

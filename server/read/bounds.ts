import { USAGE_MINUTES_SHOWN_HOURS } from '#db/projections/bounds.ts';
import { assertIncreasing } from '#db/assert-increasing.ts';
import { PAGE_LIMIT_MAX } from '#server/contract/requests.ts';

/** Fixed bounds of the read API, each with its reason. */

/** Connections of a process that read figures for people and programs: enough for a page's widgets,
 * and few enough that Postgres stays with the calls. */
export const READ_CONNECTIONS_MAX = 4;
/** Readers waiting for one of them: as many as are served before the first of them loses patience. */
export const READS_WAITING_MAX = 64;
/** Concurrent reads of one key or member: a page of widgets, without taking all connections for long. */
export const READS_PER_KEY_MAX = 8;

/** The time that a list shows where none is asked for. */
export const LIST_WINDOW_MS = 24 * 3_600_000;
/** Requests that one page of a list looks at when few of them fit its filter: a few dozen milliseconds. */
export const LIST_LOOK_MAX = 10_000;
/**
 * The largest distance between the first and last event of a request for which the events between are
 * searched: some seconds of a busy log, and some milliseconds of reading.
 */
export const REQUEST_DETAIL_LOOK_MAX = 20_000;
/** Corrections of one request in its details: each is a person's or a repricing's. */
export const REQUEST_CORRECTIONS_MAX = 200;
/** Corrections of one account's list: a repricing makes one of each request. */
export const ACCOUNT_CORRECTIONS_MAX = 50;
/** Events of one request in its detail: a hold grows by increasing steps. */
export const REQUEST_DETAIL_EVENTS_MAX = 1_000;
/** Rows of an export, and the requests that it scans. The next part starts where it ends. */
export const EXPORT_ROWS_MAX = 100_000;
/** Steps of an export, and the rows of each. */
export const EXPORT_STEPS_MAX = 200;
export const EXPORT_STEP_ROWS = 1_000;
/** Rows of a usage report: more than people read. The totals include the rest. */
export const USAGE_ROWS_MAX = 2_000;
/**
 * Requests that a usage report sums one by one, where no table has its sums: some hundred milliseconds. A
 * shorter range, or one account or key, has fewer.
 */
export const USAGE_REQUESTS_MAX = 100_000;
/** Requests that a report of errors looks at, the newest ones: some hundred milliseconds. */
export const ERRORS_LOOK_MAX = 100_000;
/**
 * The longest call that such a report is sure to include. Indexes order requests by acceptance, and reports
 * are by the end: requests accepted this long before the range are looked at too.
 */
export const USAGE_CALL_MAX_MS = 3_600_000;
/** Buckets of such a report: two days in minutes, three months in hours, seven years in days. */
export const USAGE_BUCKETS_MAX = 2_880;
/** How far back there are minutes: the worker's retention takes older ones away. */
export const USAGE_MINUTES_SHOWN_MS = USAGE_MINUTES_SHOWN_HOURS * 3_600_000;
/** Statements that a process computes at once: each holds a connection of readers for up to its time. */
export const STATEMENTS_AT_ONCE = 2;
/** How long one is computed, below the time that the dashboard waits. */
export const STATEMENT_READ_MS = 20_000;
/** Lines of one: some ten megabytes of text. */
export const STATEMENT_LINES_MAX = 20_000;
/** Events of a file with its proof: some twenty megabytes. The command has a greater bound. */
export const STATEMENT_ENTRIES_MAX = 20_000;
/** Limits of one list. */
export const LIMITS_LISTED_MAX = 500;

assertIncreasing(
  { READ_CONNECTIONS_MAX, READS_PER_KEY_MAX, READS_WAITING_MAX },
  'One reader must not fill the queue of reads alone.',
);
assertIncreasing(
  { STATEMENTS_AT_ONCE, READ_CONNECTIONS_MAX },
  'Statements must leave connections to other readers.',
);
assertIncreasing(
  { PAGE_LIMIT_MAX, LIST_LOOK_MAX },
  'A page of a list must look at more requests than it shows.',
);
assertIncreasing(
  { REQUEST_DETAIL_EVENTS_MAX, REQUEST_DETAIL_LOOK_MAX },
  'The events of one request must fit into the searched range.',
);
assertIncreasing(
  {
    EXPORT_STEP_ROWS,
    EXPORT_ROWS_MAX,
    'EXPORT_STEPS_MAX * EXPORT_STEP_ROWS': EXPORT_STEPS_MAX * EXPORT_STEP_ROWS,
  },
  'The steps of an export must suffice for all its rows.',
);
assertIncreasing(
  {
    'two days in minutes': 2 * 24 * 60 - 1,
    USAGE_BUCKETS_MAX,
  },
  'A report must be able to show all minutes that are kept.',
);

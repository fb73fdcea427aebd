import { assertIncreasing } from '#db/assert-increasing.ts';
import { NODE_CHILDREN } from '#db/tlog/hashes.ts';

/** Bounds of verification, replay, export, the audit commands and witnesses. */

/** Positions per query: about 2 MB of text. */
export const PAGE_POSITIONS = 10_000;
/** Positions per query of a source of events. */
export const SOURCE_PAGE_POSITIONS = 10_000;
/** Events verified per turn of the event loop, so that pg can read the next page from its socket. */
export const EVENTS_PER_TURN = 500;
/** Tiles that are read at once: those of a page, about. */
export const TILES_PER_READ = 32;
/** Tiles of 8 KB each: enough for the largest batch and the pages around it. */
export const CACHED_TILES_MAX = 4_096;
/** Later findings mostly follow from earlier ones. */
export const FINDINGS_MAX = 100;
/** Faults of a replay that are listed. The rest are only counted. */
export const FAULTS_LISTED_MAX = 100;
/** Rows shown per table; the JSON output has all of them. */
export const ROWS_SHOWN_MAX = 40;

/** A published checkpoint is stored a moment after it was published. */
export const ROW_WAIT_MS = 500;
/** Between the reading of a tree's size and that of the time of its checkpoint. */
export const PUBLICATION_MS_MAX = 300_000;
/** The worker publishes every ten seconds, so a covering checkpoint exists by then. */
export const CHECKPOINT_WAIT_MS = 15_000;
export const CHECKPOINT_POLL_MS = 500;
/** The worker publishes every ten seconds, so an event that is uncovered for longer means no worker runs. */
export const STALE_MS = 60_000;

/** A statement of a comparison scans a full table, row by row. */
export const STATEMENT_TIMEOUT_MS = 3_600_000;
/** How often the line of progress is redrawn. */
export const REDRAW_INTERVAL_MS = 250;
/** Positions scanned by one statement of a trace, which takes about a tenth of a second. */
export const STRETCH_POSITIONS = 100_000;
/** More events than any request has: a reservation is extended a dozen times at most. */
export const TRACED_EVENTS_MAX = 10_000;
/**
 * How far a server's clock may be ahead of the database's. Without clock skew the id of a request is older
 * than its first event.
 */
export const CLOCK_SKEW_MAX_MS = 10 * 60_000;

/** The largest response of a log to a witness is a proof, of a few kilobytes. */
export const RESPONSE_BYTES_MAX = 256 * 1024;
/** Short, since the next poll follows soon. */
export const LOG_TIMEOUT_MS = 10_000;
/**
 * At most one checkpoint per interval is appended to the history of a witness: about 300 MB a year for a busy
 * log. The newest one has a file of its own.
 */
export const HISTORY_INTERVAL_MS = 60_000;
/** How often a warning that persists is repeated. */
export const WARNING_REPEAT_MS = 600_000;
export const WEBHOOK_TIMEOUT_MS = 10_000;
export const POLL_INTERVAL_MIN_S = 1;
export const POLL_INTERVAL_MAX_S = 3_600;

assertIncreasing(
  {
    EVENTS_PER_TURN,
    'TILES_PER_READ * NODE_CHILDREN': TILES_PER_READ * NODE_CHILDREN,
    PAGE_POSITIONS,
    'CACHED_TILES_MAX * NODE_CHILDREN': CACHED_TILES_MAX * NODE_CHILDREN,
  },
  'A page takes several turns, and its tiles are read once.',
);
assertIncreasing({ ROWS_SHOWN_MAX, FINDINGS_MAX }, 'Findings are shown in full, rows are examples.');
assertIncreasing(
  { ROW_WAIT_MS, CHECKPOINT_WAIT_MS, STALE_MS, PUBLICATION_MS_MAX },
  'A checkpoint must be awaited for longer than its row, and a missing worker for longer than both.',
);
assertIncreasing({ CHECKPOINT_POLL_MS, CHECKPOINT_WAIT_MS }, 'A checkpoint must be looked for repeatedly.');
assertIncreasing(
  { LOG_TIMEOUT_MS, STALE_MS },
  'A log that does not reply must not make its newest checkpoint look stale.',
);
assertIncreasing({ WEBHOOK_TIMEOUT_MS, WARNING_REPEAT_MS }, 'A warning ends before it is repeated.');
assertIncreasing({ POLL_INTERVAL_MIN_S, POLL_INTERVAL_MAX_S }, 'The interval must have a range.');

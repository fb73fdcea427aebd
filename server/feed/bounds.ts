import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of the live feed, each with its reason. */

const KIB = 1024;

/** Viewers of the live feed on one process: each costs some 20 KB, and a socket. */
export const VIEWERS_MAX = 5_000;
/** Concurrent viewers of one key or member: browser tabs and programs. */
export const VIEWERS_PER_KEY_MAX = 100;
/** Viewers say nothing but pongs, which are at most 125 bytes. */
export const VIEWER_MESSAGE_BYTES_MAX = KIB;
/** Recently closed sessions: more than can close while a feed is being opened. */
export const CLOSED_SESSIONS_MAX = 1_000;
/** Interval between checks of an open feed's session: expiry is no event. */
export const SESSION_CHECK_MS = 30_000;
/** Buffer of a slow viewer: some seconds of a busy account. Beyond it frames are dropped. */
export const VIEWER_BUFFER_BYTES_MAX = 256 * KIB;
/** A viewer whose connection has taken nothing for this long is given up. */
export const VIEWER_STUCK_MS = 30_000;
/** How long a viewer may take to answer the end of its connection. */
export const VIEWER_CLOSE_MS = 1_000;
/** How often viewers are looked after: keys that have expired, connections that read again. */
export const VIEWERS_CHECK_MS = 500;
/** Something is said to each viewer at least this often, so that it knows silence from a lost connection. */
export const LIVE_HEARTBEAT_MS = 5_000;
/** A viewer that did not answer the last ping by the next one is gone. */
export const LIVE_PING_MS = 15_000;
/**
 * After each page of the log the feed waits: a busy log is read in fewer pages, each one message to a viewer.
 */
export const FEED_PAUSE_MS = 10;
/**
 * With many viewers the pause is this many times the time to send a page, up to a maximum that people still
 * see as immediate, so that calls get the process.
 */
export const FEED_PAUSE_SHARE = 6;
export const FEED_PAUSE_MAX_MS = 100;
/**
 * How far back a viewer may resume: half a minute of a busy log, which Postgres walks over in some tens of
 * milliseconds.
 */
export const RESUME_POSITIONS_MAX = 50_000;
/** Events sent to a viewer that resumes; one that missed more fetches its data again. */
export const RESUME_EVENTS_MAX = 5_000;
/** Events read at once for it: a few hundred kilobytes. */
export const RESUME_PAGE_EVENTS = 500;
/** Queued queries of the feed; further viewers that resume at once get a gap. */
export const FEED_QUERIES_MAX = 200;
/** The feed's own connection is closed after this idle time. */
export const FEED_IDLE_MS = 15_000;
/** Interval of progress frames: four times a second. */
export const PROGRESS_EVERY_MS = 250;
/** Calls per interval: some 100 KB of notifications. If more are running, they alternate. */
export const PROGRESS_CALLS_MAX = 1_000;
/**
 * Processes announce the accounts that their viewers watch; an announcement that isn't repeated in time
 * expires.
 */
export const WATCH_EVERY_MS = 5_000;
export const WATCH_EXPIRES_MS = 12_000;
/** Accounts watched by other processes. Calls of further ones get no progress frames there. */
export const WATCHED_MAX = 20_000;
/** Changed quotas are read this often at most, and so many at once. */
export const QUOTAS_EVERY_MS = 250;
export const QUOTAS_READ_MAX = 1_000;

assertIncreasing({ VIEWERS_PER_KEY_MAX, VIEWERS_MAX }, 'One key must not take the places of all viewers.');
assertIncreasing(
  { VIEWER_MESSAGE_BYTES_MAX, VIEWER_BUFFER_BYTES_MAX },
  'A message of a viewer must be smaller than its buffer.',
);
assertIncreasing(
  { VIEWERS_CHECK_MS, VIEWER_CLOSE_MS, LIVE_HEARTBEAT_MS, LIVE_PING_MS, VIEWER_STUCK_MS },
  'A viewer must be given up only after it had the time to answer a heartbeat and a ping.',
);
assertIncreasing(
  { FEED_PAUSE_MS, FEED_PAUSE_MAX_MS, PROGRESS_EVERY_MS },
  'The feed must forward one step of progress before the next one is due.',
);
assertIncreasing(
  { RESUME_PAGE_EVENTS, RESUME_EVENTS_MAX, RESUME_POSITIONS_MAX },
  'Missed events must be sent in pages.',
);
assertIncreasing(
  { '2 * WATCH_EVERY_MS': 2 * WATCH_EVERY_MS, WATCH_EXPIRES_MS },
  'What viewers watch must outlive one lost notification.',
);
assertIncreasing(
  { QUOTAS_READ_MAX, WATCHED_MAX },
  'Changed quotas are read for some of the watched accounts at a time.',
);

import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of the live feed, each with its reason. */

const KIB = 1024;

/** Viewers of the live feed on one process: each costs some 20 KB, and a socket. */
export const VIEWERS_MAX = 5_000;
/** A key is in as many windows and programs as somebody may have open, and not in more. */
export const VIEWERS_PER_KEY_MAX = 100;
/** Viewers say nothing but pongs, which are at most 125 bytes. */
export const VIEWER_MESSAGE_BYTES_MAX = KIB;
/** Sessions that were closed lately are remembered: more than can end while somebody's feed is opened. */
export const CLOSED_SESSIONS_MAX = 1_000;
/** How often the session behind an open feed is looked at: it may have expired, which no event tells. */
export const SESSION_CHECK_MS = 30_000;
/**
 * What waits for a viewer that reads slowly: some seconds of a busy account. Beyond it frames are left out.
 */
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
/** With many viewers it waits as many times longer than it took to tell them, so that it leaves the process to its
 * calls, up to this: what people still see as at once. */
export const FEED_PAUSE_SHARE = 6;
export const FEED_PAUSE_MAX_MS = 100;
/**
 * How far back a viewer may resume: half a minute of a busy log, which Postgres walks over in some tens of
 * milliseconds.
 */
export const RESUME_POSITIONS_MAX = 50_000;
/** Events that a viewer is sent when it resumes; whoever missed more fetches the figures anew. */
export const RESUME_EVENTS_MAX = 5_000;
/** Events read at once for it: a few hundred kilobytes. */
export const RESUME_PAGE_EVENTS = 500;
/** Questions of the feed that wait for the store; more viewers that resume at once fetch anew. */
export const FEED_QUERIES_MAX = 200;
/** The feed's own connection is closed when nobody has needed it for this long. */
export const FEED_IDLE_MS = 15_000;
/** How far running replies are is told this often: four times a second. */
export const PROGRESS_EVERY_MS = 250;
/** Calls told of each time: some 100 KB in notifications. Where more run, they take turns. */
export const PROGRESS_CALLS_MAX = 1_000;
/**
 * Processes tell one another what their viewers watch; what was not told again for this long is watched no
 * more.
 */
export const WATCH_EVERY_MS = 5_000;
export const WATCH_EXPIRES_MS = 12_000;
/** Accounts that others watch. Those beyond are not told how far calls are, until they settle. */
export const WATCHED_MAX = 20_000;
/** Changed quotas are read this often at most, and so many at once. */
export const QUOTAS_EVERY_MS = 250;
export const QUOTAS_READ_MAX = 1_000;

assertIncreasing({ VIEWERS_PER_KEY_MAX, VIEWERS_MAX }, 'One key must not take the places of all viewers.');
assertIncreasing(
  { VIEWER_MESSAGE_BYTES_MAX, VIEWER_BUFFER_BYTES_MAX },
  'A message of a viewer must be smaller than what is buffered for it.',
);
assertIncreasing(
  { VIEWERS_CHECK_MS, VIEWER_CLOSE_MS, LIVE_HEARTBEAT_MS, LIVE_PING_MS, VIEWER_STUCK_MS },
  'A viewer must be given up only after it had the time to answer a heartbeat and a ping.',
);
assertIncreasing(
  { FEED_PAUSE_MS, FEED_PAUSE_MAX_MS, PROGRESS_EVERY_MS },
  'The feed must forward one step of progress before the next one arrives.',
);
assertIncreasing(
  { RESUME_PAGE_EVENTS, RESUME_EVENTS_MAX, RESUME_POSITIONS_MAX },
  'A viewer that resumes must be sent what it missed in pages.',
);
assertIncreasing(
  { '2 * WATCH_EVERY_MS': 2 * WATCH_EVERY_MS, WATCH_EXPIRES_MS },
  'What viewers watch must outlive one lost notification.',
);
assertIncreasing(
  { QUOTAS_READ_MAX, WATCHED_MAX },
  'Changed quotas are read for some of the watched accounts at a time.',
);

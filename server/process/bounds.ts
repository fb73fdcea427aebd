import { HEARTBEAT_MS } from '#db/bounds.ts';
import { assertIncreasing } from '#db/assert-increasing.ts';
import { LAST_ENDINGS_MS, LAST_REPORT_MS } from '#server/instance/bounds.ts';

/** Fixed bounds of processes, their starts and stops, each with its reason. */

/**
 * How long a server accepts calls after SIGTERM although it is not ready any more (LAME_DUCK_MS). The
 * front of deploy/haproxy.cfg notices within two seconds, Kubernetes within a few.
 */
export const LAME_DUCK_DEFAULT_MS = 5_000;
/** Slow load balancers take minutes to remove a server. */
export const LAME_DUCK_MAX_MS = 300_000;
/** How long running replies may take to end once the listener is closed. */
export const DRAIN_MS = 300_000;
/** How often a drain looks whether it is over. */
export const DRAIN_POLL_MS = 20;
/**
 * How long replies other than those to calls may take to end: the dashboard's, which can be asked for
 * again.
 */
export const OTHER_REPLIES_MS = 10_000;
/** How long a listener that is to be closed goes on to accept the connections that already wait. */
export const ACCEPT_REST_MS = 1_000;
/**
 * How long an accepted connection may take to send its first request once the listener is closed: a round
 * trip and a lost packet, which TCP sends again after a second.
 */
export const FIRST_REQUEST_MS = 2_000;
/** How long the error that ends a call which is cut may take to reach its client. */
export const LAST_BYTES_MS = 1_000;
/**
 * A signal that follows another within this time is the same act: the terminal and npm both send Ctrl-C,
 * and who sends it again on purpose has read the first reply.
 */
export const REPEATED_SIGNAL_MS = 1_000;
/**
 * How long a server process may take to stop after its lame-duck time: draining, then the last events, its
 * leases, its connections.
 */
export const CHILD_STOP_MS = DRAIN_MS + 15_000;
/** The same where the running calls are cut. */
export const CHILD_CUT_MS = 15_000;
/** A worker's jobs are short or can be repeated. */
export const WORKER_STOP_MS = 10_000;

/** Backoff before a process that ended is restarted, doubled each time up to the maximum. */
export const CHILD_RESTART_FIRST_MS = 100;
export const CHILD_RESTART_MAX_MS = 10_000;
/** A process that ran for this long started properly: the backoff begins at its first pause again. */
export const CHILD_STABLE_MS = 3_000;

/**
 * Server processes on one port: far more than one machine's cores can use, and their connections fit into
 * what the embedded PostgreSQL allows.
 */
export const INSTANCES_MAX = 64;
/**
 * The most that `auto` starts: a saturated server uses about 150 µs of a core for a call, and PostgreSQL,
 * which appends one batch at a time, about 20.
 */
export const AUTO_INSTANCES_MAX = 8;

/** How long the build of the dashboard may take at the start: some seconds on a slow machine. */
export const PAGE_BUILD_MS = 60_000;
/** A child's last messages may still be in the pipe when its end is reported. */
export const LAST_MESSAGES_MS = 50;
/** How often a server started by npm checks that its parent is still there. */
export const PARENT_CHECK_MS = 500;

assertIncreasing(
  {
    'DRAIN_MS + LAST_ENDINGS_MS + LAST_REPORT_MS': DRAIN_MS + LAST_ENDINGS_MS + LAST_REPORT_MS,
    CHILD_STOP_MS,
  },
  'A process that drains for as long as it may must still write its last events before it is killed.',
);
assertIncreasing(
  {
    'LAST_BYTES_MS + LAST_ENDINGS_MS + LAST_REPORT_MS': LAST_BYTES_MS + LAST_ENDINGS_MS + LAST_REPORT_MS,
    CHILD_CUT_MS,
  },
  'A process whose calls are cut must still write its last events before it is killed.',
);
assertIncreasing(
  { DRAIN_POLL_MS, FIRST_REQUEST_MS, OTHER_REPLIES_MS, DRAIN_MS },
  'A connection without a request must not prolong a drain by more than a reply.',
);
assertIncreasing(
  { DRAIN_POLL_MS, LAST_BYTES_MS, OTHER_REPLIES_MS, DRAIN_MS },
  'What can be repeated must not prolong a drain.',
);
assertIncreasing({ LAME_DUCK_DEFAULT_MS, LAME_DUCK_MAX_MS }, 'The default must be a permitted value.');
assertIncreasing({ WORKER_STOP_MS, CHILD_STOP_MS }, 'The worker ends after the server that it works for.');
assertIncreasing(
  { CHILD_RESTART_FIRST_MS, CHILD_STABLE_MS, CHILD_RESTART_MAX_MS },
  'A process that fails at each start must be restarted ever less often.',
);
assertIncreasing(
  { LAST_MESSAGES_MS, PARENT_CHECK_MS, HEARTBEAT_MS },
  'A lost parent must be noticed within a heartbeat.',
);

import { HEARTBEAT_MS } from '#db/bounds.ts';
import { assertIncreasing } from '#db/assert-increasing.ts';
import { LAST_ENDINGS_MS, LAST_REPORT_MS } from '#server/instance/bounds.ts';

/** Fixed bounds of processes, their starts and stops, each with its reason. */

/** How long running replies may take to end after SIGTERM. */
export const DRAIN_MS = 300_000;
/**
 * How long a server process may take to stop: draining, then the last events, its leases, its connections.
 */
export const CHILD_STOP_MS = DRAIN_MS + 15_000;
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
assertIncreasing({ WORKER_STOP_MS, CHILD_STOP_MS }, 'The worker ends after the server that it works for.');
assertIncreasing(
  { CHILD_RESTART_FIRST_MS, CHILD_STABLE_MS, CHILD_RESTART_MAX_MS },
  'A process that fails at each start must be restarted ever less often.',
);
assertIncreasing(
  { LAST_MESSAGES_MS, PARENT_CHECK_MS, HEARTBEAT_MS },
  'A lost parent must be noticed within a heartbeat.',
);

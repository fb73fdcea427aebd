import { assertIncreasing } from '#db/assert-increasing.ts';

/**
 * The store's fixed ceilings. Each number has its reason beside it; relations that must hold among
 * them are checked at the end.
 */

/**
 * A frozen server accepts a connection and never answers it; 1.5 s leaves time to refuse a caller within 2.5
 * s.
 */
export const CONNECT_TIMEOUT_MS = 1_500;

/**
 * A goodbye is answered within a millisecond, or never: a frozen server keeps its side of the connection
 * open.
 */
export const CLOSE_TIMEOUT_MS = 500;

/** How long a client waits for any reply before it takes the server for frozen. */
export const QUERY_TIMEOUT_MS = 2_000;

/**
 * The server gives a statement up this much earlier than the client stops waiting. A server that is
 * merely slow then answers with a proper error and the connection stays usable.
 */
export const STATEMENT_MARGIN_MS = 200;

/** A session that froze inside a transaction must not hold its locks for longer than this. */
export const IDLE_TRANSACTION_TIMEOUT_MS = 10_000;

/** The owner changes tables while servers run: waiting for a lock longer would stall everyone behind it. */
export const OWNER_LOCK_TIMEOUT_MS = 2_000;

/** One migration statement may rewrite a large table, and concurrent starters wait for one another. */
export const MIGRATION_TIMEOUT_MS = 600_000;

/** The age of silence after which the kernel starts to probe a connection over TCP. */
export const KEEP_ALIVE_DELAY_MS = 10_000;

/** How often an instance says that it lives. */
export const HEARTBEAT_MS = 1_000;

/** How long another instance must have been silent, by our own watching, to be declared dead. */
export const DEAD_AFTER_MS = 5_000;

/**
 * Time between two looks at the others counts as watched up to this, so that a watcher that was
 * itself frozen does not take its own absence for theirs.
 */
export const WATCH_GAP_MAX_MS = 2 * HEARTBEAT_MS;

/**
 * A process that did not run for longer than this may have been declared dead; see
 * db/instances/fencing-guard.ts. With the second between heartbeats, and as much again for a slow one, it is
 * below DEAD_AFTER_MS.
 */
export const STALL_MAX_MS = 1_500;

/** How often a running process reports to its fencing guard that it runs. */
export const FENCING_TICK_MS = 250;

/** Clocks of machines differ in their rate, and a write takes time after it was allowed. */
export const FENCING_MARGIN_MS = 500;

/** The pause before a fenced instance that could not be registered again is registered. */
export const REREGISTER_PAUSE_MS = 1_000;

/** How long a worker has to recover a dead instance before whoever asked does so itself. With the
 * time until it is declared dead that is half of the thirty seconds in which leases are to be back. */
export const RECOVERY_PATIENCE_MS = 10_000;

/** Searching the log for what a dead instance left open, from its oldest open request on. */
export const RECOVERY_TIMEOUT_MS = 60_000;

/**
 * The longest statement of the archive copies the control events of a partition: a million take about ten
 * seconds.
 */
export const ARCHIVE_STATEMENT_TIMEOUT_MS = 120_000;

/**
 * How often a starting or stopping Postgres is looked at. A start takes about 200 ms, so 20 ms is a tenth.
 */
export const POSTMASTER_POLL_MS = 20;

/** A Postgres that is probed and does not reply within this time is silent: starting, or frozen. */
export const PROBE_TIMEOUT_MS = 2_000;

/** Crash recovery replays up to `max_wal_size`; on a slow disk two gigabytes take minutes. */
export const START_TIMEOUT_MS = 300_000;

/** A start takes a fraction of this. Whoever waits longer is told what for. */
export const START_NOTICE_MS = 3_000;

/**
 * At a start and for commands nobody is kept waiting by a slow connection, and a busy machine must not make
 * them fail.
 */
export const START_CONNECT_TIMEOUT_MS = 10_000;

/** Creating the roles and the database of a new cluster copies about ten megabytes. */
export const BOOTSTRAP_TIMEOUT_MS = 60_000;

/** A fast shutdown writes one checkpoint; after this Postgres is told to stop at once and recover later. */
export const FAST_SHUTDOWN_TIMEOUT_MS = 10_000;

/** An immediate shutdown kills what does not end by itself within 5 s; a little more for the reaping. */
export const IMMEDIATE_SHUTDOWN_TIMEOUT_MS = 7_000;

/** How long the connection of a predecessor that was just killed may take to close. */
export const SUPERVISOR_LOCK_WAIT_MS = 2_000;
export const SUPERVISOR_LOCK_POLL_MS = 50;

/**
 * Pauses between attempts to bring Postgres back. The longest decides how soon it is back after a full disk
 * has space again.
 */
export const RESTART_PAUSE_MIN_MS = 100;
export const RESTART_PAUSE_MAX_MS = 3_000;

/** Postgres that served this long did come up; one that dies sooner each time is given growing pauses. */
export const RESTART_STABLE_MS = 500;

/** The log file of Postgres is set aside at a start when it has grown beyond this. */
export const POSTGRES_LOG_BYTES_MAX = 10 * 1024 * 1024;

/** How much of the log's end is read for the reason of a failed start. */
export const POSTGRES_LOG_TAIL_BYTES = 64 * 1024;

/** Helper programs (id, useradd, setpriv) do one small thing each. */
export const HELPER_TIMEOUT_MS = 20_000;

/** `initdb` writes forty megabytes and syncs them. */
export const INITDB_TIMEOUT_MS = 180_000;

/** Attempts to remove what a killed first start left, a tenth of a second longer apart each. */
export const LEFTOVER_RETRIES_MAX = 10;

/** Longest path of a Unix socket, without its final zero byte: 107 on Linux, 103 on macOS and the BSDs. */
export const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;

/** Backoff before the next attempt to reach the database, doubled each time up to the maximum. */
export const RECONNECT_FIRST_MS = 50;
export const RECONNECT_MAX_MS = 1_000;

assertIncreasing(
  { STATEMENT_MARGIN_MS, CONNECT_TIMEOUT_MS, QUERY_TIMEOUT_MS },
  'The server must give up a statement before the client stops waiting for it.',
);
assertIncreasing(
  { RESTART_PAUSE_MIN_MS, RESTART_STABLE_MS, RESTART_PAUSE_MAX_MS },
  'A Postgres that fails at each start must be restarted ever less often.',
);
assertIncreasing(
  { HEARTBEAT_MS, WATCH_GAP_MAX_MS, DEAD_AFTER_MS, RECOVERY_PATIENCE_MS },
  'An instance must miss several heartbeats before it is declared dead, and be dead before it is recovered.',
);
assertIncreasing(
  { 'HEARTBEAT_MS + QUERY_TIMEOUT_MS': HEARTBEAT_MS + QUERY_TIMEOUT_MS, DEAD_AFTER_MS },
  'One heartbeat that times out must not make an instance look dead.',
);
assertIncreasing(
  { RECONNECT_FIRST_MS, RECONNECT_MAX_MS, QUERY_TIMEOUT_MS },
  'A database that is back must be reached within the time of one query.',
);
assertIncreasing(
  { POSTMASTER_POLL_MS, PROBE_TIMEOUT_MS, START_NOTICE_MS, START_TIMEOUT_MS },
  'A slow start must be reported before it is given up.',
);
assertIncreasing(
  { SUPERVISOR_LOCK_POLL_MS, SUPERVISOR_LOCK_WAIT_MS },
  'The lock of a predecessor must be tried more than once.',
);
assertIncreasing(
  {
    'STALL_MAX_MS + 2 * HEARTBEAT_MS + FENCING_MARGIN_MS':
      STALL_MAX_MS + 2 * HEARTBEAT_MS + FENCING_MARGIN_MS,
    DEAD_AFTER_MS,
  },
  'A process that stood still must stop writing before others declare it dead.',
);
assertIncreasing(
  { FENCING_TICK_MS, STALL_MAX_MS },
  'A process that runs must report so before it is suspected of having stood still.',
);

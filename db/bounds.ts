import { assertIncreasing } from '#db/assert-increasing.ts';

/**
 * The store's fixed ceilings. Each number has its reason beside it; relations that must hold among
 * them are checked at the end.
 */

/**
 * A frozen server accepts connections and never replies; 1.5 s leaves time to reject a request within 2.5
 * s.
 */
export const CONNECT_TIMEOUT_MS = 1_500;

/** A server closes a connection within a millisecond; a frozen server keeps its side open forever. */
export const CLOSE_TIMEOUT_MS = 500;

/** How long a client waits for a reply before it considers the server frozen. */
export const QUERY_TIMEOUT_MS = 2_000;

/**
 * The server cancels a statement this much before the client stops waiting. A server that is merely slow
 * then replies with an error and the connection stays usable.
 */
export const STATEMENT_MARGIN_MS = 200;

/** A session that hangs inside a transaction must not hold its locks for longer than this. */
export const IDLE_TRANSACTION_TIMEOUT_MS = 10_000;

/** The owner changes tables while servers run: waiting for a lock longer would stall everyone behind it. */
export const OWNER_LOCK_TIMEOUT_MS = 2_000;

/** One migration statement may rewrite a large table, and concurrent starters wait for one another. */
export const MIGRATION_TIMEOUT_MS = 600_000;

/** The idle time after which the kernel sends TCP keepalive probes. */
export const KEEP_ALIVE_DELAY_MS = 10_000;

/**
 * How long a session of an outside login may keep Daybook's own waiting, and the interval of the checks. An
 * append that waited through both is in time all the same.
 */
export const OUTSIDE_WAIT_MAX_MS = 400;
export const OUTSIDE_CHECK_MS = 1_000;

/** How long such a session may be idle in a transaction, and how long its transactions may last: */
export const OUTSIDE_IDLE_MAX_MS = 60_000;
/** a verification of the whole log reads 100,000 events a second. */
export const OUTSIDE_TRANSACTION_MAX_MS = 2 * 60 * 60 * 1000;

/** The interval between the heartbeats of an instance. */
export const HEARTBEAT_MS = 1_000;

/** How long a peer must have been silent, as observed by this process, to be declared dead. */
export const DEAD_AFTER_MS = 5_000;

/**
 * Time between two observations of the peers counts up to this, so that a process that was itself frozen
 * does not mistake its own pause for theirs.
 */
export const WATCH_GAP_MAX_MS = 2 * HEARTBEAT_MS;

/**
 * A process that did not run for longer than this may have been declared dead; see
 * db/instances/fencing-guard.ts. Plus the interval of heartbeats, and as much again for a slow one, it is
 * below DEAD_AFTER_MS.
 */
export const STALL_MAX_MS = 1_500;

/** How often a running process reports to its fencing guard that it runs. */
export const FENCING_TICK_MS = 250;

/** A longer delay of the event loop counts as this: a process that was stopped soon takes calls again. */
export const DELAY_MAX_MS = 3_000;

/** Clocks of machines differ in their rate, and a write takes time after it was allowed. */
export const FENCING_MARGIN_MS = 500;

/**
 * How many of its newest batches an instance compares with the log after a reconnection. Of a loss of more
 * batches, the positions are named from the oldest of these on.
 */
export const ACKNOWLEDGED_BATCHES_MAX = 10_000;

/** The pause before a fenced instance that could not be registered again is registered. */
export const REREGISTER_PAUSE_MS = 1_000;

/**
 * How long a worker may take to recover a dead instance before the peer that queued the job does so itself.
 * With DEAD_AFTER_MS this is half of the thirty seconds in which leases are to be returned.
 */
export const RECOVERY_PATIENCE_MS = 10_000;

/** The statement timeout of a recovery, which searches the log from the oldest open request on. */
export const RECOVERY_TIMEOUT_MS = 60_000;

/**
 * The longest statement of the archive copies the control events of a partition: a million take about ten
 * seconds.
 */
export const ARCHIVE_STATEMENT_TIMEOUT_MS = 120_000;

/**
 * The poll interval for a starting or stopping Postgres. A start takes about 200 ms, so 20 ms is a tenth.
 */
export const POSTMASTER_POLL_MS = 20;

/** A Postgres that is probed and does not reply within this time is silent: starting, or frozen. */
export const PROBE_TIMEOUT_MS = 2_000;

/** A lock file that is damaged stays so; one that Postgres is writing is complete within microseconds. */
export const DAMAGED_LOCK_SETTLE_MS = 500;

/** Crash recovery replays up to `max_wal_size`; on a slow disk two gigabytes take minutes. */
export const START_TIMEOUT_MS = 300_000;

/** A start takes a fraction of this. A longer one is logged. */
export const START_NOTICE_MS = 3_000;

/**
 * Connecting at a start and for commands: no request waits for it, and a busy machine must not make them
 * fail.
 */
export const START_CONNECT_TIMEOUT_MS = 10_000;

/** Creating the roles and the database of a new cluster copies about ten megabytes. */
export const BOOTSTRAP_TIMEOUT_MS = 60_000;

/**
 * A fast shutdown writes one checkpoint; after this an immediate shutdown follows, with crash recovery
 * later.
 */
export const FAST_SHUTDOWN_TIMEOUT_MS = 10_000;

/** An immediate shutdown kills processes that do not exit within 5 s; plus a margin for reaping. */
export const IMMEDIATE_SHUTDOWN_TIMEOUT_MS = 7_000;

/** How long the connection of a just killed predecessor may take to close. */
export const SUPERVISOR_LOCK_WAIT_MS = 2_000;
export const SUPERVISOR_LOCK_POLL_MS = 50;

/**
 * The backoff of Postgres restarts. The maximum decides how soon it is up after a full disk has space
 * again.
 */
export const RESTART_PAUSE_MIN_MS = 100;
export const RESTART_PAUSE_MAX_MS = 3_000;

/** A Postgres that served this long has started; the backoff grows while it dies sooner. */
export const RESTART_STABLE_MS = 500;

/** The log file of Postgres is rotated at a start if it is larger than this. */
export const POSTGRES_LOG_BYTES_MAX = 10 * 1024 * 1024;

/** How much of the log's tail is searched for the reason of a failed start. */
export const POSTGRES_LOG_TAIL_BYTES = 64 * 1024;

/** Helper programs (id, useradd, setpriv) are quick. */
export const HELPER_TIMEOUT_MS = 20_000;

/** `initdb` writes forty megabytes and syncs them. */
export const INITDB_TIMEOUT_MS = 180_000;

/** Attempts to remove the leftovers of a killed first start, each a tenth of a second further apart. */
export const LEFTOVER_RETRIES_MAX = 10;

/** Longest path of a Unix socket, without its final zero byte: 107 on Linux, 103 on macOS and the BSDs. */
export const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103;

/** A transaction that lost against concurrent ones three times is the caller's to report. */
export const TRANSACTION_ATTEMPTS_MAX = 3;
/** The longest pause before the second attempt. Transactions take a few milliseconds. */
export const TRANSACTION_RETRY_MS = 20;

/** Backoff before the next attempt to reach the database, doubled each time up to the maximum. */
export const RECONNECT_FIRST_MS = 50;
export const RECONNECT_MAX_MS = 1_000;

assertIncreasing(
  {
    waited: OUTSIDE_WAIT_MAX_MS + OUTSIDE_CHECK_MS,
    statement: QUERY_TIMEOUT_MS - STATEMENT_MARGIN_MS,
    OUTSIDE_IDLE_MAX_MS,
    OUTSIDE_TRANSACTION_MAX_MS,
  },
  'An append must not time out before the session that blocks it is ended.',
);
assertIncreasing(
  { STATEMENT_MARGIN_MS, CONNECT_TIMEOUT_MS, QUERY_TIMEOUT_MS },
  'The server must give up a statement before the client stops waiting for it.',
);
assertIncreasing(
  { RESTART_PAUSE_MIN_MS, RESTART_STABLE_MS, RESTART_PAUSE_MAX_MS },
  'The backoff of a Postgres that fails at each start must grow.',
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
  { POSTMASTER_POLL_MS, DAMAGED_LOCK_SETTLE_MS, PROBE_TIMEOUT_MS, START_NOTICE_MS, START_TIMEOUT_MS },
  'A slow start must be reported before it is given up.',
);
assertIncreasing(
  { SUPERVISOR_LOCK_POLL_MS, SUPERVISOR_LOCK_WAIT_MS },
  'The lock of a predecessor must be attempted more than once.',
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

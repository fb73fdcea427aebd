import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of dispatch, connections and health checks, each with its reason. */

const KIB = 1024;
const MIB = 1024 * KIB;

/** No attempt of a call begins later than this: most clients give a silent reply up after 300 s. */
export const NEW_ATTEMPT_WITHIN_MS = 240_000;
/**
 * How long an upstream that was changed or removed still takes the calls that were admitted before: they know
 * no other, and may be waiting for their admission.
 */
export const REMOVED_UPSTREAM_KEPT_MS = NEW_ATTEMPT_WITHIN_MS + 30_000;
/** The backoff before the first retry at the same upstream, doubled for each further one. */
export const RETRY_PAUSE_MS = 250;
/** A longer Retry-After of an upstream is passed to the client, which waits itself. */
export const RETRY_WAIT_MAX_MS = 10_000;
/**
 * How long the head of a streamed reply is held back while another upstream could take over, since no data
 * may follow it.
 */
export const HEAD_HELD_MS = 3_000;

/** Consecutive failures that open the circuit: two or three happen to every upstream. */
export const OPEN_AFTER_FAILURES = 5;
/** How long the circuit stays open the first time, doubled each further time. */
export const CIRCUIT_OPEN_MS = 10_000;
/** The longest time that a circuit stays open, so that a repaired upstream is found. */
export const CIRCUIT_OPEN_MAX_MS = 300_000;
/** How long a credential that was rejected is not used. */
export const WRONG_CREDENTIAL_MS = 60_000;
/** How long a credential that is over its limit is not used, where no Retry-After came with it. */
export const BUSY_CREDENTIAL_MS = 5_000;
/** A longer Retry-After is not believed: some providers send the end of the month. */
export const RETRY_AFTER_MAX_MS = 60_000;

/** Response headers of an upstream. */
export const UPSTREAM_HEADER_BYTES_MAX = 32 * KIB;
/**
 * Idle connections to an upstream are closed before common model servers close theirs (5 s): a request sent
 * into a closing connection fails.
 */
export const UPSTREAM_KEEP_ALIVE_MS = 4_000;
/** An upstream's list of models. */
export const MODEL_LIST_BYTES_MAX = 4 * MIB;

/** How often the open circuits are checked for those whose time is over. */
export const PROBE_CHECK_MS = 1_000;
/** The least time between two probes of one upstream, which is known to have failed. */
export const PROBE_EVERY_MS = 10_000;
export const PROBE_TIMEOUT_MS = 5_000;
/** Concurrent probes of all upstreams: those that hang keep no more than this waiting. */
export const PROBES_AT_ONCE_MAX = 8;

/** The pause before a credential that could not be opened is opened again. */
export const CREDENTIAL_RETRY_MS = 10_000;

assertIncreasing(
  {
    RETRY_PAUSE_MS,
    RETRY_WAIT_MAX_MS,
    RETRY_AFTER_MAX_MS,
    NEW_ATTEMPT_WITHIN_MS,
    REMOVED_UPSTREAM_KEPT_MS,
  },
  'A retry must be able to begin within the time that a call has for its attempts.',
);
assertIncreasing(
  { HEAD_HELD_MS, NEW_ATTEMPT_WITHIN_MS },
  'A reply whose head was held back must leave time for another attempt.',
);
assertIncreasing(
  { CIRCUIT_OPEN_MS, WRONG_CREDENTIAL_MS, CIRCUIT_OPEN_MAX_MS },
  'The time that a circuit stays open must be able to grow.',
);
assertIncreasing(
  { BUSY_CREDENTIAL_MS, RETRY_AFTER_MAX_MS },
  'A credential without a Retry-After must not be unused for longer than one with it.',
);
assertIncreasing(
  { PROBE_CHECK_MS, PROBE_TIMEOUT_MS, PROBE_EVERY_MS },
  'A probe must have ended before the next one of the same upstream begins.',
);
assertIncreasing(
  { UPSTREAM_KEEP_ALIVE_MS, 'idle timeout of common model servers': 5_000 },
  'A request sent into a connection that the upstream is closing fails.',
);

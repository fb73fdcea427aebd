import { assertIncreasing } from '#db/assert-increasing.ts';
import { VIEWERS_MAX } from '#server/feed/bounds.ts';
import { RUNNING_MAX } from '#server/limits/bounds.ts';
import { SOCKETS_MAX } from '#server/websocket/bounds.ts';

/** Fixed bounds of the HTTP server and of the public log routes, each with its reason. */

const KIB = 1024;
const MIB = 1024 * KIB;

/** Node's default of 16 KiB rejects agents with long tracing headers; more only helps attackers. */
export const HEADER_BYTES_MAX = 32 * KIB;
/** A client that sends its headers more slowly is disconnected. */
export const HEADERS_TIMEOUT_MS = 10_000;
/** A whole request, body included: 32 MiB in two minutes is 2 Mbit/s. */
export const REQUEST_TIMEOUT_MS = 120_000;
/** How often Node checks the two timeouts above. Its default of 30 s is too coarse. */
export const CONNECTIONS_CHECK_MS = 1_000;
/** Longer than the idle timeout of common load balancers (60 s), so that they close first. */
export const KEEP_ALIVE_MS = 75_000;
/** A client that reads nothing for this long is disconnected. */
export const SLOW_READER_MS = 60_000;
/**
 * Pauses before the interim responses to a client whose sending side has ended. The first provokes a reset,
 * and the second notices it. The later ones do so for clients with a round trip of up to seconds.
 */
export const HALF_CLOSED_FIRST_PROBES_MS = [0, 100] as const;
export const HALF_CLOSED_LATER_PROBES_MS = [400, 2_000] as const;
/** The kernel refuses connections beyond this many that wait to be accepted. */
export const LISTEN_BACKLOG = 4096;

/** JSON replies of the management API from this length on are compressed: more than one packet. */
export const JSON_COMPRESSED_BYTES_MIN = 1_400;

/** Header lines of one request. Agents send some dozens. */
export const HEADERS_MAX = 256;

/**
 * Requests of one connection whose replies have not ended. Clients and proxies don't pipeline: they send a
 * request when the reply to the one before has ended, or use another connection.
 */
export const PIPELINED_MAX = 16;
/**
 * Connections of one process: as many as calls may run, viewers may watch and WebSockets may be idle, and
 * some for other requests.
 * Further ones are closed when they are accepted.
 */
export const CONNECTIONS_MAX = 30_000;

/**
 * Bytes of a refused request that are read and discarded, so that the client reads the reply before the
 * connection is reset; how long that may take, and the longest pause in it.
 */
export const LINGER_BYTES_MAX = 64 * MIB;
export const LINGER_MS = 30_000;
export const LINGER_IDLE_MS = 5_000;

/**
 * Concurrent readers of the public log: each takes some milliseconds on the connections for reads, which the
 * dashboard needs too.
 */
export const LOG_READERS_MAX = 16;
/** Concurrent reads of the public log from one address: a witness sends one request at a time. */
export const LOG_READS_PER_ADDRESS_MAX = 4;
/** A checkpoint with the cosignatures of some dozen witnesses. */
export const COSIGNATURES_BYTES_MAX = 16 * KIB;
/** How long the newest checkpoint is served from memory: at most four queries a second. */
export const CHECKPOINT_CACHE_MS = 250;

assertIncreasing(
  { CONNECTIONS_CHECK_MS, HEADERS_TIMEOUT_MS, REQUEST_TIMEOUT_MS },
  'A timeout shorter than the interval of its check is not kept, and headers are a part of the request.',
);
assertIncreasing(
  { CONNECTIONS_CHECK_MS, LINGER_IDLE_MS, LINGER_MS, REQUEST_TIMEOUT_MS },
  'A refused request must not be read for longer than one that is served.',
);
assertIncreasing(
  { 'idle timeout of load balancers': 60_000, KEEP_ALIVE_MS },
  'A load balancer that reuses a connection which the server is closing loses the request.',
);
assertIncreasing(
  { LOG_READS_PER_ADDRESS_MAX, LOG_READERS_MAX },
  'One address must not take all concurrent reads of the public log.',
);
assertIncreasing(
  {
    'RUNNING_MAX + VIEWERS_MAX + SOCKETS_MAX': RUNNING_MAX + VIEWERS_MAX + SOCKETS_MAX,
    CONNECTIONS_MAX,
  },
  'Each running call, viewer and WebSocket needs a connection, and health checks need one too.',
);

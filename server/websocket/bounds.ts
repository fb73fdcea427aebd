import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of WebSocket connections to `/v1/responses`, each with its reason. */

const KIB = 1024;

/** Connections of one process: each costs some 30 KB, and a socket. */
export const SOCKETS_MAX = 4_000;
/** The same of one key, with which a whole team may run its agents. */
export const SOCKETS_PER_KEY_MAX = 1_000;
/** OpenAI's own bound; clients connect again before it, or when they read its error. */
export const CONNECTION_AGE_MAX_MS = 60 * 60_000;
/** A connection without a response for this long is closed: an agent whose user is away. */
export const CONNECTION_IDLE_MS = 30 * 60_000;
/** Responses that run at the same time on one connection, as at OpenAI. */
export const RUNNING_PER_CONNECTION_MAX = 16;
/** Different `stream_id`s of one connection, as at OpenAI. */
export const STREAMS_MAX = 32;
export const STREAM_ID_CHARACTERS_MAX = 256;
/** Messages that wait for a response before them. Agents send the next one when they have read the last. */
export const WAITING_MESSAGES_MAX = 64;
/** A message of this size is received without a look at the memory that the key has left. */
export const UNMETERED_MESSAGE_BYTES = 128 * KIB;
/** Errors that the client hasn't read yet: a client that sends on without reading is disconnected. */
export const UNREAD_ERRORS_MAX = 64;
/** Buffered for one reply before its upstream is paused. */
export const REPLY_BUFFER_BYTES = 64 * KIB;
/** Shorter than the idle timeout of common load balancers (60 s). */
export const PING_MS = 25_000;
/** A client that has answered no ping for this long reads nothing, or is gone. */
export const UNANSWERED_PING_MS = 60_000;
/** How often connections are checked: their age, and whether they answer pings. */
export const CONNECTIONS_CHECK_MS = 1_000;
/** How long the errors of running responses may take to reach a client whose permission has ended. */
export const LAST_EVENTS_MS = 300;
/** How long a client may take to answer the end of its connection. */
export const CLOSE_MS = 300;
/**
 * The share of the memory for bodies that conversations of connections may take beside it: they are dropped
 * when others need it, and their clients send them again.
 */
export const CONTEXTS_SHARE = 1 / 4;

assertIncreasing({ SOCKETS_PER_KEY_MAX, SOCKETS_MAX }, 'One key must not take all connections of a process.');
assertIncreasing(
  { RUNNING_PER_CONNECTION_MAX, STREAMS_MAX, WAITING_MESSAGES_MAX },
  'Each stream of a connection must be able to wait for its turn.',
);
assertIncreasing(
  { CONNECTIONS_CHECK_MS, PING_MS, UNANSWERED_PING_MS, CONNECTION_IDLE_MS, CONNECTION_AGE_MAX_MS },
  'A client must have the time to answer two pings before it is disconnected.',
);
assertIncreasing(
  { 'LAST_EVENTS_MS + CLOSE_MS': LAST_EVENTS_MS + CLOSE_MS, 'the promised second': 1_000 },
  'A connection must end within a second after its permission.',
);

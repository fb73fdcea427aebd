import { assertIncreasing } from '#db/assert-increasing.ts';
import { DEAD_AFTER_MS, DELAY_MAX_MS, FENCING_TICK_MS } from '#db/bounds.ts';
import { COMPLETION_MINIMUM_TOKENS } from '#server/limits/bounds.ts';
import { KEEP_ALIVE_MS, SLOW_READER_MS } from '#server/http/bounds.ts';

/** Fixed bounds of a relayed call, each with its reason. */

/** The smallest extension of a reservation: smaller steps would only write more events. */
export const GROWTH_TOKENS_MIN = 256;
/**
 * A whole reply is written to its client in chunks of this size. A client that takes no chunk within
 * SLOW_READER_MS is slower than 1 KB/s.
 */
export const DELIVERY_CHUNK_BYTES = 64 * 1024;

/**
 * New calls are refused while the event loop is later than this: the calls that run come first, and peers
 * declare a process dead that is silent for DEAD_AFTER_MS.
 */
export const OVERLOAD_DELAY_MS = 2_000;
/** How often running requests are compared with their deadlines. */
export const DEADLINE_TICK_MS = 50;
/** A comment keeps the connection of a client alive while the upstream is silent. */
export const KEEP_ALIVE_COMMENT_MS = 15_000;
/** An upstream that sends bytes but no data (comments only) is disconnected. */
export const PROGRESS_TIMEOUT_MS = 120_000;

/** Informational replies (1xx) before a reply; an upstream that sends more is disconnected. */
export const INFORMATIONAL_REPLIES_MAX = 100;

/** How long a list of an upstream's models is cached. */
export const MODEL_LIST_MS = 60_000;
export const MODEL_LIST_TIMEOUT_MS = 3_000;
/** Models used of one upstream's list. */
export const MODEL_LIST_MAX = 2_000;
/** Models on a page for Anthropic's clients, as its own API has them. */
export const MODELS_PAGE_USUAL = 20;
/** The same for Google's clients. */
export const MODELS_PAGE_GEMINI = 50;
export const MODELS_PAGE_MAX = 1_000;

assertIncreasing(
  { DEADLINE_TICK_MS, KEEP_ALIVE_COMMENT_MS, SLOW_READER_MS, KEEP_ALIVE_MS },
  'Comments must keep a connection alive, and a slow reader is disconnected before an idle connection is.',
);
assertIncreasing(
  { FENCING_TICK_MS, OVERLOAD_DELAY_MS, DELAY_MAX_MS, DEAD_AFTER_MS },
  'An overloaded process must refuse new calls before its peers declare it dead.',
);
assertIncreasing(
  { KEEP_ALIVE_COMMENT_MS, PROGRESS_TIMEOUT_MS },
  'A client is to see comments before its silent upstream is given up.',
);
assertIncreasing(
  { MODEL_LIST_TIMEOUT_MS, MODEL_LIST_MS },
  'A list must be cached for longer than fetching it takes.',
);
assertIncreasing(
  { COMPLETION_MINIMUM_TOKENS, GROWTH_TOKENS_MIN },
  'A reservation must not be extended in steps smaller than the shortest completion.',
);

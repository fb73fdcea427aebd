import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of traces, each with its reason. */

/** Sampled calls that have not ended; further ones are not traced, and counted as dropped. */
export const OPEN_TRACES_MAX = 10_000;
/** How long an ended call waits for the position of its end in the log before it is exported without. */
export const AWAIT_POSITION_MS = 30_000;
/** Values that a client or an upstream has sent are cut after so many characters. */
export const ATTRIBUTE_CHARACTERS_MAX = 256;
/** An export that the collector can't receive now is repeated this often, with a growing pause. */
export const EXPORT_RETRIES_MAX = 3;
export const EXPORT_RETRY_FIRST_MS = 500;
/** How long the end of a process waits for the last spans. */
export const LAST_SPANS_MS = 2_000;
/** The longest answer of a collector that is read. */
export const ANSWER_BYTES_MAX = 64 * 1024;

assertIncreasing(
  { ATTRIBUTE_CHARACTERS_MAX, OPEN_TRACES_MAX },
  'A span must be small, so that many fit into the queue.',
);

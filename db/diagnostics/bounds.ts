import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of the diagnostic output, each with its reason. */

/**
 * What waits while the output doesn't take it, in characters: some thousand lines, so that those around the
 * fault are kept, and nothing next to the memory of a process.
 */
export const QUEUED_CHARACTERS_MAX = 1024 * 1024;

/**
 * One write. The kernel writes this much to a pipe whole or not at all (PIPE_BUF), so that lines of several
 * processes on one pipe don't mix.
 */
export const WRITE_BYTES_MAX = 4_096;

/** The pause before an output that took nothing is retried, doubled each time up to the maximum. */
export const WRITE_RETRY_FIRST_MS = 20;
export const WRITE_RETRY_MAX_MS = 1_000;

/** How long the end of a process waits for its last lines to be written. */
export const LAST_LINES_MS = 500;

/** The longest message of an error in a line, and how many causes are followed. */
export const ERROR_MESSAGE_CHARACTERS_MAX = 300;
export const ERROR_CAUSES_MAX = 4;
/** How many frames of the stack a fault of the program is logged with. */
export const STACK_FRAMES_MAX = 8;

assertIncreasing(
  { WRITE_RETRY_FIRST_MS, LAST_LINES_MS, WRITE_RETRY_MAX_MS },
  'The last lines must be tried more than once, and a dead output may not delay the end of a process.',
);
assertIncreasing(
  { ERROR_MESSAGE_CHARACTERS_MAX, WRITE_BYTES_MAX, QUEUED_CHARACTERS_MAX },
  'A line with an error must fit into one write, and a write into the queue.',
);

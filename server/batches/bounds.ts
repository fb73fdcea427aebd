import { assertIncreasing } from '#db/assert-increasing.ts';
import { JSON_REPLY_BYTES_MAX } from '#server/wire/bounds.ts';

/** Fixed bounds of files and batches, each with its reason. */

const KIB = 1024;
const MIB = 1024 * KIB;

/** OpenAI's limit on the input file of a batch. */
export const FILE_BYTES_MAX = 200 * MIB;
/** The other parts of an upload's form, and the heads of all. */
export const FORM_BYTES_MAX = 64 * KIB;
/** The value of a part of a form: a purpose, or a time. */
export const FORM_VALUE_BYTES_MAX = KIB;
/** A line of an input file: a request with some images. The first is held until its upstream is chosen. */
export const INPUT_LINE_BYTES_MAX = 8 * MIB;
/** A line of an output file: a reply with its id. */
export const OUTPUT_LINE_BYTES_MAX = JSON_REPLY_BYTES_MAX + 64 * KIB;
/** Without a chunk for so long, an upload or a download is broken off. */
export const TRANSFER_IDLE_MS = 60_000;

/** OpenAI's limit on the lines of a batch. */
export const BATCH_LINES_MAX = 50_000;
/** Lines of an account that are not settled: their rows are bounded by it. */
export const ACCOUNT_LINES_MAX = 200_000;
/** The request that creates a batch, with 16 metadata. */
export const BATCH_BODY_BYTES_MAX = 64 * KIB;
/** The memory of a line while its batch is created. */
export const LINE_MEMORY_BYTES = KIB;
/** Lines between which other work of the process has its turn. */
export const LINES_PER_TURN = 100;

/** The transaction that accepts the lines of a batch, which takes about two seconds for the most lines. */
export const ACCEPT_STATEMENT_MS = 30_000;
/** Units of a limit that other servers have leased are waited for so often, and for so long each time. */
export const RECALLS_MAX = 4;
export const RECALL_PAUSE_MS = 250;

/** An upstream's reply to a request that creates a batch. */
export const CREATE_REPLY_MS = 120_000;
/** Without a reply, the provider is asked for the batch after this time, and until that one at the latest. */
export const LOOK_FOR_BATCH_MS = 5_000;
export const CREATED_BY_MS = 120_000;
/** Pages of a provider's list that a batch is looked for in. */
export const LOOK_PAGES_MAX = 5;

/** How often each server looks for batches that are due, and while it has seen none for a time. */
export const BATCH_LOOK_MS = 1_000;
export const BATCH_IDLE_LOOK_MS = 5_000;
export const BATCH_ACTIVE_MS = 60_000;
/** How many a server follows at the same time. */
export const FOLLOWED_MAX = 4;
/** A batch that a server has taken is left to it for so long; each chunk of endings takes it again. */
export const BATCH_TAKEN_MS = 120_000;
/** A provider is asked again after a tenth of the batch's age, within these bounds. */
export const FOLLOW_EVERY_MIN_MS = 1_000;
export const FOLLOW_EVERY_MAX_MS = 60_000;
/** From this age on a batch that its provider doesn't know is lost. */
export const UNKNOWN_BATCH_IS_LOST_MS = 60_000;
/** A batch that hasn't ended so long after its completion window is lost. */
export const AFTER_WINDOW_MS = 24 * 3_600_000;
/** The longest completion window; OpenAI has 24 hours, others up to 14 days. */
export const WINDOW_HOURS_MAX = 14 * 24;
/** Output that isn't there so long after the end of its batch is lost. */
export const OUTPUT_MISSING_MS = 3_600_000;
/** Endings of one transaction, and bytes of the lines that they are made from. */
export const ENDINGS_PER_CHUNK = 200;
export const ENDING_BYTES_MAX = 8 * MIB;

assertIncreasing(
  { FORM_BYTES_MAX, INPUT_LINE_BYTES_MAX, OUTPUT_LINE_BYTES_MAX, FILE_BYTES_MAX },
  'A file has lines, and the reply to a line is as long as a reply may be.',
);
assertIncreasing(
  { BATCH_LINES_MAX, ACCOUNT_LINES_MAX },
  'An account must be able to have the largest batch.',
);
assertIncreasing(
  { LOOK_FOR_BATCH_MS, CREATED_BY_MS, OUTPUT_MISSING_MS, AFTER_WINDOW_MS },
  'A batch is looked for before it is taken for lost.',
);

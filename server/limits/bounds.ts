import { assertIncreasing } from '#db/assert-increasing.ts';
import { TOKENS_BELIEVED_MAX, TOKENS_MAX } from '#server/wire/bounds.ts';

/** Fixed bounds of admission, leases and token estimates, each with its reason. */

/** Calls that wait for a lease response. With more waiting, Postgres is too slow to admit any. */
export const WAITING_MAX = 10_000;
/**
 * One lease request: as much as Postgres handles in a few milliseconds, so that other instances get their
 * turn.
 */
export const LEASE_REQUEST_LINES_MAX = 200;
export const LEASE_REQUEST_CALLS_MAX = 500;
/** A lease covers some more calls, and two seconds of demand: a crash strands no more than that. */
export const STOCK_CALLS = 8;
export const STOCK_MS = 2_000;
/**
 * A limit is scarce on an instance whose free units cover less than so many calls like the last one and the
 * demand of so many milliseconds, which is more than a settled event lingers.
 */
export const SCARCE_CALLS = 4;
export const SCARCE_MS = 50;
/** How long a call waits for other instances to return units that they don't need. A recall takes
 * some milliseconds; an instance that does not answer within a second is not healthy. */
export const RECALL_WAIT_MS = 1_000;
/** How long a call waits for units reserved by running calls, in case one of them has just ended.
 * Appending its end takes some milliseconds, and many times that on a busy machine. A longer wait
 * would only delay the calls that are rejected in the end. */
export const SETTLING_WAIT_MS = 250;
/** The pause before the next lease request for calls that wait for a recall. */
export const RECALL_PAUSE_MS = 5;
/** How long an exhausted limit rejects calls without a lease request, so that floods of them stay cheap. */
export const EXHAUSTED_FOR_MS = 20;
/** The leases of the next windows are requested this long before they begin. */
export const PREFETCH_MS = 3_000;
/** Leases of ended windows are kept this long: a clock that is set back finds its reservations again. */
export const ENDED_KEPT_MINUTES = 2;
/** A subject without a call for this long returns its leases. */
export const SUBJECT_IDLE_MS = 60_000;
/** The same where there are very many subjects: longer than most calls of one agent are apart. */
export const SUBJECT_IDLE_MS_MIN = 1_000;
/**
 * So many subjects (accounts, keys, end users, sessions, tags) an instance usually keeps counters of at most:
 * from half of them on, idle ones are dropped earlier. About 30 MB.
 */
export const SUBJECTS_USUAL = 20_000;
/**
 * With counters of so many subjects, calls of others are rejected with 503 until some are idle. About 150 MB;
 * only more than this many end users within some seconds reach it.
 */
export const SUBJECTS_MAX = 100_000;
/** How often usage is reported when no call waits for it. Recovery reads the log from the last report. */
export const REPORT_EVERY_MS = 10_000;
/** Counters refreshed per exchange for `GET /v1/usage` and the dashboard, beside those that calls need. */
export const FIGURES_COUNTERS_MAX = 100;
/** How long such a refresh may take. */
export const FIGURES_WAIT_MS = 3_000;

/**
 * Pairs of key and model, and models, whose past calls are kept: half of each. The least recently used are
 * dropped first. About 3 MB; 5 MB with the longest names of models.
 */
export const PAST_CALLS_MAX = 10_000;
/** The length assumed before any completion was seen: two thirds of chat completions are shorter. */
export const REPLY_FIRST_TOKENS = 512;
/** No estimate is below this: a sentence, or a tool call without text. */
export const REPLY_LEAST_TOKENS = 16;

/**
 * The bytes of a request for each token of its prompt, where it is all text: no tokenizer makes more tokens
 * than half bytes of the shortest requests with their template, and long runs of blanks have the most bytes.
 */
export const BYTES_PER_TOKEN_MIN = 1 / 2;
export const BYTES_PER_TOKEN_MAX = 32;

/** A shorter completion is of no use: a call whose limits leave fewer tokens is rejected. */
export const COMPLETION_MINIMUM_TOKENS = 16;

/** The tokens that a provider's chat template may add: some for each message, which are fewer than
 * the bytes of its JSON, and a short preamble such as the current date. */
export const TEMPLATE_TOKENS_MAX = 100;
/** The same with tools: the longest known instructions have about 800 tokens. */
export const TOOLS_TEMPLATE_TOKENS_MAX = 1_500;
/** The most expensive image known: gpt-4o-mini counts 2,833 tokens and 5,667 for each of up to 8 tiles. */
export const IMAGE_TOKENS_MAX = 50_000;
/** An audio part given by its id or address: an hour at Gemini's 32 tokens a second. An audio part
 * within the body has far fewer tokens than bytes. */
export const AUDIO_TOKENS_MAX = 115_200;
/** The length of a recording that is given by its id or address, as above. */
export const MEDIA_MS_MAX = 3_600_000;
/** Calls of a provider's own tool that are reserved where the request does not limit them. */
export const TOOL_CALLS_TYPICAL = 5;
/** A file or video may fill a model's context, and so may all parts of a prompt together. The
 * longest context known is Llama 4 Scout's. */
export const CONTEXT_TOKENS_MAX = 10_485_760;
/**
 * Reasoning that one choice can have: models stop at some 128,000 tokens, and several agents that work on one
 * reply have been seen to use some 300,000 together.
 */
export const REASONING_TOKENS_MAX = 1_000_000;
/**
 * Output without a byte of reply: reasoning that is not reported apart, and calls of a provider's own tools.
 */
export const HIDDEN_OUTPUT_TOKENS_MAX = 1_000_000;
/** Limits are exceeded by some tokens, and images or sounds in a reply can be given by their addresses. */
export const OUTPUT_SLACK_TOKENS = 65_536;
/** The estimate of an image where no upper bound is needed: a screenshot at full detail. */
export const IMAGE_TOKENS_TYPICAL = 1_600;

/** Concurrent requests of a key where its terms set no limit. */
export const CONCURRENT_MAX = 10_000;
/** Concurrent calls of one process: some gigabytes at 60 KB per idle stream, and their bodies. */
export const RUNNING_MAX = 20_000;

/**
 * Largest bodies that one key, one account and one process may hold in memory at the same time, where the
 * configuration sets no other limit. A call holds its body until its reply begins, and a JSON reply until the
 * client has received it.
 */
export const BUFFERED_BODIES_PER_KEY = 8;
export const BUFFERED_BODIES_PER_ACCOUNT = 16;
export const BUFFERED_BODIES = 32;

assertIncreasing(
  { CONCURRENT_MAX, RUNNING_MAX },
  'One key without limits must not take all calls that a process can run.',
);
assertIncreasing(
  { BUFFERED_BODIES_PER_KEY, BUFFERED_BODIES_PER_ACCOUNT, BUFFERED_BODIES },
  'One key must not take the memory of its account, nor one account that of the process.',
);
assertIncreasing(
  { RECALL_PAUSE_MS, EXHAUSTED_FOR_MS, SETTLING_WAIT_MS, RECALL_WAIT_MS },
  'A waiting call must be able to request a lease again before it is rejected.',
);
assertIncreasing({ STOCK_MS, SUBJECT_IDLE_MS }, 'The leases of a busy account must not be returned as idle.');
assertIncreasing({ SUBJECT_IDLE_MS_MIN, SUBJECT_IDLE_MS }, 'Many subjects must not be kept longer than few.');
assertIncreasing(
  { LEASE_REQUEST_LINES_MAX, SUBJECTS_USUAL, SUBJECTS_MAX },
  'Idle subjects must be dropped before there is no place for others.',
);
assertIncreasing(
  { LEASE_REQUEST_LINES_MAX, LEASE_REQUEST_CALLS_MAX, WAITING_MAX },
  'Waiting calls must fit into few exchanges.',
);
assertIncreasing(
  { REPLY_LEAST_TOKENS, REPLY_FIRST_TOKENS },
  'The first estimate must not be below the lowest one.',
);
assertIncreasing(
  { TEMPLATE_TOKENS_MAX, TOOLS_TEMPLATE_TOKENS_MAX, IMAGE_TOKENS_MAX, AUDIO_TOKENS_MAX, CONTEXT_TOKENS_MAX },
  'No part of a prompt can be longer than the context.',
);
assertIncreasing(
  { IMAGE_TOKENS_TYPICAL, IMAGE_TOKENS_MAX },
  'An estimate must not be above its upper bound.',
);
assertIncreasing({ CONTEXT_TOKENS_MAX, TOKENS_MAX }, 'The tokens of a prompt must fit into a 32-bit column.');
assertIncreasing(
  { OUTPUT_SLACK_TOKENS, HIDDEN_OUTPUT_TOKENS_MAX, CONTEXT_TOKENS_MAX, TOKENS_BELIEVED_MAX },
  'A report that is possible for some call must be believed for that call.',
);

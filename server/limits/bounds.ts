import { assertIncreasing } from '#db/assert-increasing.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';

/** Fixed bounds of admission, leases and token estimates, each with its reason. */

/** Calls waiting for the store's word on a limit; more means that it is too slow to admit anything. */
export const WAITING_MAX = 10_000;
/** One exchange with the store: as much as it does in a few milliseconds, so that others get their turn. */
export const ASK_LINES_MAX = 200;
export const ASK_REQUESTS_MAX = 500;
/** A stock that lasts for some calls, and for two seconds of what is used: a crash strands no more. */
export const STOCK_NEEDS = 8;
export const STOCK_MS = 2_000;
/** How long a call waits for another instance to give back what it may hold beyond its needs. It
 * takes some milliseconds; an instance that does not answer in a second is not well. */
export const LOOSE_WAIT_MS = 1_000;
/** How long a call waits for what running calls hold, in case one of them has just ended: writing an
 * ending down takes some milliseconds, and a busy machine many times that. Longer would only keep
 * those waiting who are refused in the end. */
export const SETTLING_WAIT_MS = 250;
/** The pause before such calls are asked for again. */
export const LOOSE_PAUSE_MS = 5;
/** A limit that had nothing left is not asked for again within this: floods of refusals stay cheap. */
export const REFUSAL_MEMORY_MS = 20;
/** Leases of the next windows are taken this long before they begin. */
export const PREFETCH_MS = 3_000;
/** Leases of windows that ended are remembered so long: a clock that is set back finds its holds again. */
export const ENDED_KEPT_MINUTES = 2;
/** An account or key that nobody has called with for this long gives back its leases. */
export const IDLE_SUBJECT_MS = 60_000;
/**
 * How often what was spent is reported where nobody waits for it: so much of the log is read after a crash.
 */
export const REPORT_EVERY_MS = 10_000;
/** Limits that the store is asked for at once for people, beside what calls need, and for how long. */
export const LIMITS_ASKED_MAX = 100;
export const FIGURES_WAIT_MS = 3_000;

/** Reply lengths that are remembered, half of them for pairs of key and model, half for models; those
 * heard of least lately go first. About a megabyte. */
export const REPLY_LENGTHS_MAX = 10_000;
/** What a reply is taken for before any was seen: two thirds of chat replies are shorter. */
export const REPLY_FIRST_TOKENS = 512;
/** No estimate is below this: a sentence, and the tool call that has no text at all. */
export const REPLY_LEAST_TOKENS = 16;

/** What a provider may put around a prompt by itself: some tokens for each message, which are fewer
 * than the bytes of its JSON, and a short preamble such as today's date. */
export const TEMPLATE_TOKENS_MAX = 100;
/** Its instructions where there are tools: the longest known have about 800 tokens. */
export const TOOLS_TEMPLATE_TOKENS_MAX = 1_500;
/** The dearest image known: gpt-4o-mini counts 2,833 tokens and 5,667 for each of at most 8 tiles. */
export const IMAGE_TOKENS_MAX = 50_000;
/** An audio part whose bytes are in the body has far fewer tokens than those; this is for one told
 * by its id or address: an hour at Gemini's 32 tokens a second. */
export const AUDIO_TOKENS_MAX = 115_200;
/** A file or video may be as long as a model can read, and all parts of a prompt together: the
 * longest context known is Llama 4 Scout's. */
export const CONTEXT_TOKENS_MAX = 10_485_760;
/** What an image is taken for where no bound is needed: a screenshot at full detail. */
export const IMAGE_TOKENS = 1_600;

assertIncreasing(
  { LOOSE_PAUSE_MS, REFUSAL_MEMORY_MS, SETTLING_WAIT_MS, LOOSE_WAIT_MS },
  'A waiting call must be able to ask for a limit again before it is rejected.',
);
assertIncreasing(
  { STOCK_MS, IDLE_SUBJECT_MS },
  'The leases of a busy account must not be given back as idle.',
);
assertIncreasing(
  { ASK_LINES_MAX, ASK_REQUESTS_MAX, WAITING_MAX },
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
assertIncreasing({ IMAGE_TOKENS, IMAGE_TOKENS_MAX }, 'An estimate must not be above its hard bound.');
assertIncreasing({ CONTEXT_TOKENS_MAX, TOKENS_MAX }, 'The tokens of a prompt must fit into a 32-bit column.');

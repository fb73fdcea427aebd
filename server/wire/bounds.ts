import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of request bodies, replies and SSE events, each with its reason. */

const KIB = 1024;
const MIB = 1024 * KIB;

/** Deeper JSON has no use in a chat and costs stack in every parser behind us. */
export const JSON_DEPTH_MAX = 128;
/** Choices of one reply: no known provider takes more. */
export const CHOICES_MAX = 128;

/** Bodies and replies above this are received into slabs: fresh buffers cost garbage collections. */
export const SLAB_FROM_BYTES = 64 * KIB;
/** The smallest slab; each larger one is twice the one before. */
export const SLAB_BYTES_MIN = 128 * KIB;
/** A coding agent's turn with its history is well below this; larger bodies get a region of their own. */
export const SLAB_BYTES_MAX = MIB;
/** Free slabs kept for reuse. */
export const SLABS_KEPT_BYTES_MAX = 64 * MIB;
/** A free slab that was not needed for this long is returned to the system. */
export const SLABS_TRIM_MS = 10_000;
/**
 * The smallest region of address space for what exceeds a slab. glibc returns memory to the system on free,
 * however the rest of the heap looks, for allocations above 32 MiB only; untouched pages cost nothing.
 */
export const REGION_BYTES_MIN = 32 * MIB + 64 * KIB;

/** Average bytes per token, for text and JSON, where no provider has counted the tokens. */
export const BYTES_PER_TOKEN = 4;
/** Token counts are stored in 32-bit columns. */
export const TOKENS_MAX = 2 ** 31 - 1;
/**
 * A provider that reports more of anything for one call is not believed, and the usage is estimated: the
 * largest contexts hold ten million tokens, and 128 choices of the longest replies stay below this.
 */
export const TOKENS_BELIEVED_MAX = 100_000_000;

/** The same of searches and calls of tools, of which an agent's longest run has some hundreds. */
export const UNITS_BELIEVED_MAX = 100_000;
/** A provider that states a higher cost of one call, a million dollars, states none. */
export const STATED_COST_MAX_NANOUSD = 1_000_000 * 10 ** 9;

/**
 * A non-streamed reply is buffered until it is complete, so that an upstream that breaks off causes a 502 and
 * not half a JSON document. Images come base64-encoded in replies of some megabytes; more is rejected.
 */
export const JSON_REPLY_BYTES_MAX = 32 * MIB;
/** Larger replies are scanned and not parsed: what a model has written would be garbage of its size. */
export const PARSED_WHOLE_BYTES_MAX = 8 * KIB;
/** Bytes read of an upstream's error body. */
export const ERROR_REPLY_BYTES_MAX = 64 * KIB;
/** A longer SSE event is forwarded in chunks. */
export const SSE_EVENT_BYTES_MAX = MIB;
/**
 * Kept of each end of such an event: the last event of a response repeats its images, with its usage behind
 * them, and behind that the definitions of the client's tools.
 */
export const OVERSIZE_END_BYTES = 256 * KIB;

/** Of a multipart boundary, as RFC 2046 has it. */
export const MULTIPART_BOUNDARY_CHARACTERS_MAX = 70;
/** The headers of one part of a form: a name, the name of a file and its type. */
export const MULTIPART_PART_HEAD_BYTES_MAX = 2 * KIB;
/** Parts of one form: sixteen images and each parameter of a route are fewer. */
export const MULTIPART_PARTS_MAX = 128;

assertIncreasing(
  { SLAB_FROM_BYTES, SLAB_BYTES_MIN, SLAB_BYTES_MAX, SLABS_KEPT_BYTES_MAX },
  'A slab must have room for the smallest body that is received into one, and some are kept.',
);
assertIncreasing(
  { MULTIPART_BOUNDARY_CHARACTERS_MAX, MULTIPART_PART_HEAD_BYTES_MAX, SLAB_FROM_BYTES },
  'The part of a form that is held at a time is small.',
);
assertIncreasing(
  { 'largest mmap threshold of glibc': 32 * MIB, REGION_BYTES_MIN },
  'A region must be returned to the system when it is freed.',
);
assertIncreasing(
  { ERROR_REPLY_BYTES_MAX, OVERSIZE_END_BYTES, SSE_EVENT_BYTES_MAX, JSON_REPLY_BYTES_MAX },
  'An error is the smallest reply, and one event of a stream is smaller than a whole reply.',
);
assertIncreasing(
  { 'all counts of one report': 4 * TOKENS_BELIEVED_MAX, TOKENS_MAX },
  'The sum of believed counts must fit its column.',
);

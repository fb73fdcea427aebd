import { assertIncreasing } from '#db/assert-increasing.ts';
import { TAGS_MAX } from '#db/events/events.ts';
import { VALUE_BYTES_MAX } from '#db/attribution/value.ts';

/** Fixed bounds of reading and storing end users, sessions and tags, each with its reason. */

/** Tags of one call that are looked at for the first eight valid ones. */
export const TAGS_READ_MAX = 64;
/** A longer text holds no value, not even with others beside it. */
export const TEXT_CHARACTERS_MAX = 4_096;
/** The largest `metadata` that is read: OpenAI's has at most 16 members of 576 characters. */
export const METADATA_BYTES_MAX = 16 * 1024;

assertIncreasing(
  { VALUE_BYTES_MAX, TEXT_CHARACTERS_MAX, METADATA_BYTES_MAX },
  'A text must hold a value among others, and metadata more than one text.',
);
assertIncreasing({ TAGS_MAX, TAGS_READ_MAX }, 'More tags must be looked at than a call can have.');

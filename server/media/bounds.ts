import { assertIncreasing } from '#db/assert-increasing.ts';

/** Fixed bounds of audio and forms with files, each with its reason. */

const KIB = 1024;
const MIB = 1024 * KIB;

/** The largest form: providers take files of up to 512 MB. */
export const FORM_BYTES_MAX = 576 * MIB;
/**
 * A form up to this size is received before it is sent: then all of its fields are known, and another
 * upstream can receive it. Of a larger one the beginning is held, and the rest streams through.
 */
export const FORM_HELD_BYTES = MIB;
/** The value of a field that is read: a model, a format or a number. */
export const FIELD_BYTES_MAX = KIB;

/** The beginning and the end of a recording that are kept for its length: its headers and its last frames. */
export const MEDIA_HEAD_BYTES = 64 * KIB;
export const MEDIA_TAIL_BYTES = 64 * KIB;
/** The bit rate of a recording whose format isn't known: that of speech in common formats. */
export const MEDIA_BYTES_PER_SECOND_TYPICAL = 8_000;
/** The longest recording that is believed: a day. Headers are the client's, and may say anything. */
export const MEDIA_MS_BELIEVED_MAX = 24 * 3_600_000;

/** Tokens of a second of a recording, as models count that report tokens; for estimates. */
export const AUDIO_TOKENS_PER_SECOND = 10;
/** The same of generated speech. */
export const SPEECH_TOKENS_PER_SECOND = 21;
/** Characters of a second of speech. */
export const SPEECH_CHARACTERS_PER_SECOND = 15;

assertIncreasing(
  { FIELD_BYTES_MAX, MEDIA_HEAD_BYTES, FORM_HELD_BYTES, FORM_BYTES_MAX },
  'The beginning of a form that is held is a small part of the largest one.',
);

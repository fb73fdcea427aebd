/** The values of end users, sessions and tags: which are valid, and one spelling for each. Pure. */

/** What a value stands for, with the code in the database. */
export const ATTRIBUTION_KINDS = { end_user: 1, session: 2, tag: 3 } as const;
export type AttributionKind = keyof typeof ATTRIBUTION_KINDS;
export const ATTRIBUTION_KIND_NAMES = Object.keys(ATTRIBUTION_KINDS) as [
  AttributionKind,
  ...AttributionKind[],
];

/** The longest value, in bytes of UTF-8: room for every email address and for two UUIDs with their names. */
export const VALUE_BYTES_MAX = 256;

const UTF8 = new TextEncoder();
const PRINTABLE_ASCII = /^[\x20-\x7e]*$/;
/** Control characters, line separators, and characters that reorder the text around them. */
const FORBIDDEN = /[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/u;

/**
 * A value as it is attributed: trimmed and, beyond ASCII, in Unicode normalization form C, so that two
 * spellings of one text are one value.
 * @returns null for a value that is empty, too long, not well-formed or has control characters.
 */
export function normalizeValue(text: string): string | null {
  const trimmed = text.trim();
  // A character has at least one byte.
  if (trimmed === '' || trimmed.length > VALUE_BYTES_MAX) return null;
  if (PRINTABLE_ASCII.test(trimmed)) return trimmed;
  if (!trimmed.isWellFormed() || FORBIDDEN.test(trimmed)) return null;
  const value = trimmed.normalize('NFC');
  return UTF8.encode(value).length > VALUE_BYTES_MAX ? null : value;
}

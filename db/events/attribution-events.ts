import { z } from 'zod';
import { ATTRIBUTION_KIND_NAMES, normalizeValue } from '#db/attribution/value.ts';
import { Control, Id, Pseudonym } from '#db/events/parts.ts';

/** The erasure of who a call was for, and how a key attributes its calls. */

/** The readable value behind a pseudonym was deleted, and is not stored again. */
export const AttributionErased = Control.extend({
  type: z.literal('attribution.erased'),
  account: Id,
  kind: z.enum(ATTRIBUTION_KIND_NAMES),
  pseudonym: Pseudonym,
});

/** All readable values of an account were deleted, and the key of its pseudonyms. */
export const AttributionKeyDestroyed = Control.extend({
  type: z.literal('attribution.key_destroyed'),
  account: Id,
});

/** The most tags of one call. */
export const TAGS_MAX = 8;

/** A value that an operator gives all calls of a key. It stands in the log, so it must not name a person. */
const FixedValue = z
  .string()
  .refine((value) => normalizeValue(value) === value, 'must be 1 to 256 bytes without control characters');
const REQUIRED = z.literal('required');

/** For each of the three: a fixed value instead of the client's, or that each call must have one. */
export const AttributionTerms = z.strictObject({
  end_user: z.union([REQUIRED, z.strictObject({ fixed: FixedValue })]).optional(),
  session: z.union([REQUIRED, z.strictObject({ fixed: FixedValue })]).optional(),
  tags: z.union([REQUIRED, z.strictObject({ fixed: z.array(FixedValue).min(1).max(TAGS_MAX) })]).optional(),
});
export type AttributionTerms = z.infer<typeof AttributionTerms>;

/** Who a call is for, below the account and key, as keyed pseudonyms. */
export const Attributed = {
  end_user: Pseudonym.optional(),
  session: Pseudonym.optional(),
  tags: z.array(Pseudonym).min(1).max(TAGS_MAX).optional(),
};

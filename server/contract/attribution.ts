import { z } from 'zod';
import { ChangeReply } from '#server/contract/parts.ts';
import { ATTRIBUTION_KIND_NAMES, type AttributionKind } from '#db/attribution/value.ts';
import { Pseudonym } from '#db/events/parts.ts';

/** Contract for the readable values of end users, sessions and tags. Pure. */

/** At most this many in one request: more than a page of a list shows. */
export const LOOK_UPS_MAX = 500;

export type { AttributionKind };

const kind = z.enum(ATTRIBUTION_KIND_NAMES);

/**
 * `POST /api/v1/accounts/:account/attribution` → {@link AttributionNames}. Administrators, and members of the
 * account; auditors see pseudonyms only. Each is wanted by its pseudonym or by its value, which a client
 * sends in the body so that it stands in no address. 503 `attribution_unavailable` if the server lacks the
 * master key.
 */
export const LookUpAttribution = z.strictObject({
  wanted: z
    .array(
      z.union([z.strictObject({ kind, pseudonym: Pseudonym }), z.strictObject({ kind, value: z.string() })]),
    )
    .max(LOOK_UPS_MAX),
});
export const AttributionName = z.object({
  kind: z.enum(ATTRIBUTION_KIND_NAMES),
  pseudonym: z.string(),
  /** Null: erased, expired or never stored. */
  value: z.string().nullable(),
  /** Whether the value was erased on request, alone or with the account's key. */
  erased: z.boolean(),
});
export type AttributionName = z.infer<typeof AttributionName>;
export const AttributionNames = z.object({
  object: z.literal('list'),
  /** In the order of the request, without values that no call can have. */
  data: z.array(AttributionName),
});
export type AttributionNames = z.infer<typeof AttributionNames>;

/** Values beyond this number are not counted. */
export const COUNTED_VALUES_MAX = 10_000;

/**
 * `GET /api/v1/accounts/:account/attribution`: how many values are readable, for administrators and members
 * of the account.
 */
export const AttributionSummary = z.object({
  object: z.literal('attribution'),
  /** `none`: no call was attributed yet. */
  key: z.enum(['none', 'active', 'destroyed']),
  /** Readable values, up to {@link COUNTED_VALUES_MAX} of each kind. */
  values: z.record(z.enum(ATTRIBUTION_KIND_NAMES), z.number()),
});
export type AttributionSummary = z.infer<typeof AttributionSummary>;

/**
 * `POST /api/v1/accounts/:account/attribution/erase` → {@link Change}; no event where it was erased before.
 * Administrators, and members of the account. The value is named by its pseudonym.
 */
export const EraseAttribution = z.strictObject({ kind, pseudonym: Pseudonym });

/**
 * `POST /api/v1/accounts/:account/attribution/destroy-key` → {@link DestroyedAttribution}. Administrators.
 * Erases all values of the account, and the key of its pseudonyms. 404 if the account has no key.
 */
export const DestroyedAttribution = z.object({
  ...ChangeReply.shape /** How many were erased. */,
  values: z.number(),
});
export type DestroyedAttribution = z.infer<typeof DestroyedAttribution>;

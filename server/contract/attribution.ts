import { z } from 'zod';
import { ATTRIBUTION_KIND_NAMES, type AttributionKind } from '#db/attribution/value.ts';
import { Pseudonym } from '#db/events/parts.ts';

/** Contract for the readable values of end users, sessions and tags. Pure. */

/** At most this many in one request: more than a page of a list shows. */
export const LOOK_UPS_MAX = 500;

const kind = z.enum(ATTRIBUTION_KIND_NAMES);

/**
 * `POST /api/accounts/:account/attribution` → {@link AttributionNames}. Administrators, and members of the
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
export type AttributionNames = {
  object: 'list';
  /** In the order of the request, without values that no call can have. */
  data: AttributionName[];
};
export type AttributionName = {
  kind: AttributionKind;
  pseudonym: string;
  /** Null: erased, or never stored. */
  value: string | null;
};

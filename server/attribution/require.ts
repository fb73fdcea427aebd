import type { AttributionTerms } from '#db/events/attribution-events.ts';
import { type CallAttribution, UNATTRIBUTED } from '#server/attribution/attribution.ts';
import type { AttributionValues } from '#server/attribution/read-attribution.ts';
import { ApiError } from '#server/errors/api-error.ts';

/** What a key's terms say of the attribution of its calls. Pure. */

/**
 * The values of a call with those that the key fixes in place of the client's.
 * @returns an error where the key requires a value that the client has not sent.
 */
export function applyTerms(
  values: AttributionValues,
  { end_user, session, tags }: AttributionTerms,
): AttributionValues | ApiError {
  const applied = {
    endUser: typeof end_user === 'object' ? end_user.fixed : values.endUser,
    session: typeof session === 'object' ? session.fixed : values.session,
    tags: typeof tags === 'object' ? [...new Set(tags.fixed)] : values.tags,
    unusable: values.unusable,
  };
  if (end_user === 'required' && applied.endUser === null) return missing('an end user', 'x-daybook-user');
  if (session === 'required' && applied.session === null) return missing('a session', 'x-daybook-session');
  if (tags === 'required' && applied.tags.length === 0) return missing('a tag', 'x-daybook-tags');
  return applied;
}

/**
 * The attribution of a call; none where the account's key is not available.
 * @param isLimited whether limits count end users, sessions or tags apart: without them a call would get
 * around these limits.
 * @returns an error where the call must not be made without.
 */
export function requireAttribution(
  attribution: Readonly<CallAttribution> | null,
  terms: AttributionTerms | undefined,
  isLimited: boolean,
): Readonly<CallAttribution> | ApiError {
  if (attribution !== null) return attribution;
  const isNeeded = isLimited || (terms !== undefined && Object.keys(terms).length > 0);
  return isNeeded ? new ApiError('attribution_unavailable') : UNATTRIBUTED;
}

const missing = (what: string, header: string): ApiError =>
  new ApiError('attribution_required', {
    message: `This key requires ${what} with each request. Send the header "${header}", with 1 to 256 bytes.`,
  });

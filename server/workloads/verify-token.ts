import { createHash } from 'node:crypto';
import { decodeJwt, errors, jwtVerify } from 'jose';
import { EXCHANGES_LIVE_MAX } from '#server/decide/bounds.ts';
import type { Workload } from '#db/fold/workload.ts';
import { CLOCK_TOLERANCE_S, SIGNATURES } from '#server/sign-in/oidc/issuer.ts';
import { TOKEN_CHARACTERS_MAX, TOKEN_LIFETIME_MAX_MS } from '#server/workloads/bounds.ts';
import { claimsUsed, hasAudience } from '#server/workloads/conditions.ts';
import { type IssuerKeys, IssuerUnavailableError } from '#server/workloads/issuer-keys.ts';

/** Why no key is issued: the `error` of RFC 6749 and RFC 8693, and what the server logs. */
export type Refusal = {
  error:
    | 'invalid_request'
    | 'invalid_target'
    | 'unsupported_grant_type'
    | 'slow_down'
    | 'temporarily_unavailable';
  description: string;
  /** A word for the log. The reply doesn't say which condition failed. */
  reason: string;
};
export const isRefusal = (value: object): value is Refusal => 'error' in value;

const invalid = (reason: string): Refusal => ({
  error: 'invalid_request',
  description: 'The subject token is invalid, or no workload admits it.',
  reason,
});
export const TOO_MANY: Refusal = {
  error: 'slow_down',
  description: `The workload has ${EXCHANGES_LIVE_MAX} short-lived keys already. Use one until it expires.`,
  reason: 'too_many',
};
export const UNAVAILABLE: Refusal = {
  error: 'temporarily_unavailable',
  description: 'The exchange could not be recorded. Try again.',
  reason: 'store_unavailable',
};
const ISSUER_UNAVAILABLE: Refusal = {
  error: 'temporarily_unavailable',
  description: "The keys of the token's issuer can't be read. Try again later.",
  reason: 'issuer_unavailable',
};
export const REPLAYED = invalid('replayed');

/** What a valid token gives. */
export type VerifiedToken = {
  workload: Workload;
  issuer: string;
  /** The claims that its conditions used. */
  claims: Record<string, string>;
  /** What makes the token unique; null: the workload may exchange it again. */
  token: Buffer | null;
  expiresMs: number;
};

/**
 * Finds the workload of a token by its claims, and verifies it by the keys of that one’s issuer: one
 * signature at most for each request.
 * @param name of the workload; null: the first whose issuer, audience and conditions fit.
 */
export async function verifyToken(
  text: string,
  name: string | null,
  { workloads, keys, nowMs }: { workloads: readonly Workload[]; keys: IssuerKeys; nowMs: number },
): Promise<VerifiedToken | Refusal> {
  if (text.length > TOKEN_CHARACTERS_MAX) return invalid('too_long');
  const stated = decode(text);
  if (stated === null) return invalid('malformed');
  const fits = ({ name: each, terms }: Workload): boolean =>
    (name === null || each === name) &&
    terms.issuer === stated['iss'] &&
    hasAudience(stated, terms.audience) &&
    claimsUsed(terms, stated) !== null;
  const workload = workloads.find(fits);
  if (!workload) return invalid('no_matching_workload');
  const { issuer, audience, single_use: isSingleUse } = workload.terms;
  try {
    const { payload } = await jwtVerify(text, keys.of(workload), {
      issuer,
      audience,
      algorithms: SIGNATURES,
      clockTolerance: CLOCK_TOLERANCE_S,
      currentDate: new Date(nowMs),
      requiredClaims: ['exp'],
    });
    const expiresMs = (payload.exp as number) * 1_000;
    if (expiresMs > nowMs + TOKEN_LIFETIME_MAX_MS) return invalid('lasts_too_long');
    // Of the verified claims, which are those that were decoded before.
    const claims = claimsUsed(workload.terms, payload);
    if (claims === null) return invalid('no_matching_workload');
    const token = isSingleUse ? identify(text, issuer, payload.jti) : null;
    return { workload, issuer, claims, token, expiresMs };
  } catch (error) {
    return refusalOf(error);
  }
}

function decode(text: string): Readonly<Record<string, unknown>> | null {
  try {
    return decodeJwt(text);
  } catch {
    return null;
  }
}

/** By its id or, without one, by its signed text: a signature may have several spellings. */
function identify(text: string, issuer: string, jti: unknown): Buffer {
  const [header, payload] = text.split('.');
  const id = typeof jti === 'string' && jti !== '' ? ['jti', jti] : ['text', header, payload];
  return createHash('sha256')
    .update(JSON.stringify([issuer, ...id]))
    .digest();
}

/** @throws other errors than faults of a token or its issuer. */
function refusalOf(error: unknown): Refusal {
  if (error instanceof IssuerUnavailableError || error instanceof errors.JWKSTimeout)
    return ISSUER_UNAVAILABLE;
  if (error instanceof errors.JOSEError) return invalid(error.code.toLowerCase());
  throw error;
}

import type { Key } from '#db/fold/key.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { digestSecret, keyIdOf, sameDigest } from '#server/secrets/key-secret.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type { SecretUse } from '#server/secrets/secret-use.ts';

/** The scheme in any letter case (HTTP says so), one space, visible ASCII to the end. */
const BEARER = /^bearer ([\x21-\x7e]+)$/i;

// One object each, since floods of them are refused.
const MISSING = new ApiError('missing_api_key');
const INVALID = new ApiError('invalid_api_key');
const EXPIRED = new ApiError('api_key_expired');
const REVOKED = new ApiError('api_key_revoked');

/** The same by itself, as `x-api-key` holds it. */
const BARE = /^[\x21-\x7e]+$/;

/**
 * Who is calling: exactly one key was sent, and it is good now. Runs before the body is read. All that
 * is wrong with the header or unknown is the same `invalid_api_key`; that a key has expired or was
 * revoked is only told to somebody who holds its secret.
 * @param uses notes by which secret a key that is being rotated was used.
 * @param read finds what was sent as a secret.
 */
export function authenticate(
  rawHeaders: readonly string[],
  readModel: ReadModel,
  pepper: Buffer,
  uses?: SecretUse,
  read: typeof readBearerSecret = readBearerSecret,
): Key | ApiError {
  const secret = read(rawHeaders);
  if (secret === undefined) return MISSING;
  const keyId = secret === null ? null : keyIdOf(secret);
  if (secret === null || keyId === null) return INVALID;

  const key = readModel.key(keyId);
  const digest = digestSecret(pepper, secret);
  if (!key) return INVALID;
  const nowMs = readModel.nowMs();
  const refusal = checkSecret(key, digest, nowMs);
  if (refusal) return refusal;
  // Only while it is being rotated, so that it costs all other keys nothing.
  if (key.previous !== null) uses?.note(key, digest, nowMs);
  return key;
}

/** What was sent as a secret; undefined when nothing was, null when it is none by its form. */
export function readBearerSecret(rawHeaders: readonly string[]): string | null | undefined {
  const header = soleHeader(rawHeaders, 'authorization');
  return header == null ? header : (BEARER.exec(header)?.[1] ?? null);
}

/**
 * The same where it may come as `x-api-key` just as well. Two that differ are none: it is not certain who
 * calls.
 */
export function readSecretFromEither(rawHeaders: readonly string[]): string | null | undefined {
  const bearer = readBearerSecret(rawHeaders);
  const header = soleHeader(rawHeaders, 'x-api-key');
  if (header === undefined) return bearer;
  const bare = header === null ? null : (BARE.exec(header)?.[0] ?? null);
  return bearer === undefined || bearer === bare ? bare : null;
}

/** Whether the secret with this digest opens a key at this moment; null when it does. */
export function checkSecret(key: Key, digest: string, nowMs: number): ApiError | null {
  const isCurrent = sameDigest(digest, key.secret.digest);
  const isPrevious = key.previous !== null && sameDigest(digest, key.previous.digest);
  if (!isCurrent && !isPrevious) return INVALID;
  const ended = checkKey(key, nowMs);
  if (ended) return ended;
  return !isCurrent && key.previous && key.previous.endsAt.getTime() <= nowMs ? REVOKED : null;
}

/** Whether a key has come to its end; null when it is good. */
export function checkKey(key: Key, nowMs: number): ApiError | null {
  if (key.revokedAt) return REVOKED;
  return key.expiresAt && key.expiresAt.getTime() <= nowMs ? EXPIRED : null;
}

/** The one header of a name; undefined when there is none, null when there are several. */
function soleHeader(rawHeaders: readonly string[], wanted: string): string | null | undefined {
  let found: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length !== wanted.length || name.toLowerCase() !== wanted) continue;
    if (found !== undefined) return null;
    found = rawHeaders[index + 1] as string;
  }
  return found;
}

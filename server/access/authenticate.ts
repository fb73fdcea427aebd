import type { Key } from '#db/fold/key.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { readExchangedSecret } from '#server/secrets/exchanged-secret.ts';
import { digestSecret, keyIdOf, sameDigest } from '#server/secrets/key-secret.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import type { SecretUse } from '#server/secrets/secret-use.ts';

/** The scheme in any letter case (HTTP says so), one space, visible ASCII to the end. */
const BEARER = /^bearer [\x21-\x7e]+$/i;

// Allocated once, since rejected calls can come in floods.
const MISSING = new ApiError('missing_api_key');
const INVALID = new ApiError('invalid_api_key');
const EXPIRED = new ApiError('api_key_expired');
const REVOKED = new ApiError('api_key_revoked');
const OUTDATED = new ApiError('relay_outdated');

/** The same by itself, as `x-api-key` holds it. */
const BARE = /^[\x21-\x7e]+$/;

/**
 * Identifies the caller: exactly one key was sent, and it is active. Runs before the body is read. A
 * malformed header and an unknown key are both `invalid_api_key`; that a key has expired or was revoked is
 * only reported to a caller that has its secret.
 * @param uses notes by which secret a key that is being rotated was used.
 * @param read extracts the secret from the headers.
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

  // Its secret may have been changed by an event that this version can't apply, so it must not look wrong.
  if (readModel.unapplied.of('key', keyId)) return OUTDATED;
  const key = readModel.key(keyId);
  const digest = digestSecret(pepper, secret);
  if (!key) return INVALID;
  const nowMs = readModel.nowMs();
  const refusal =
    key.workload === null ? checkSecret(key, digest, nowMs) : checkExchanged(key, secret, { pepper, nowMs });
  if (refusal) return refusal;
  // Only while it is being rotated, so that it costs all other keys nothing.
  if (key.previous !== null) uses?.note(key, digest, nowMs);
  return key;
}

/** The secret that was sent; undefined: none was. Null: the header is not a well-formed secret. */
export function readBearerSecret(rawHeaders: readonly string[]): string | null | undefined {
  const header = soleHeader(rawHeaders, 'authorization');
  return header == null ? header : BEARER.test(header) ? header.slice('bearer '.length) : null;
}

/** A header that has a key by itself, as clients of some protocols send it. */
export type ApiKeyHeader = 'x-api-key' | 'x-goog-api-key';

/**
 * The same for routes that also accept such a header. Two different secrets are invalid, since the caller is
 * ambiguous.
 */
export function readSecretFromEither(
  rawHeaders: readonly string[],
  name: ApiKeyHeader = 'x-api-key',
): string | null | undefined {
  const bearer = readBearerSecret(rawHeaders);
  const header = soleHeader(rawHeaders, name);
  if (header === undefined) return bearer;
  const bare = header === null ? null : BARE.test(header) ? header : null;
  return bearer === undefined || bearer === bare ? bare : null;
}

/** Whether a short-lived secret opens the key of a workload at this moment; null when it does. */
function checkExchanged(
  key: Key,
  secret: string,
  { pepper, nowMs }: { pepper: Buffer; nowMs: number },
): ApiError | null {
  const expiresMs = readExchangedSecret(pepper, secret);
  if (expiresMs === null) return INVALID;
  return checkKey(key, nowMs) ?? (expiresMs <= nowMs ? EXPIRED : null);
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

/** The error of a key that has expired or was revoked; null: the key is active. */
export function checkKey(key: Key, nowMs: number): ApiError | null {
  if (key.revokedAt) return REVOKED;
  return key.expiresAt && key.expiresAt.getTime() <= nowMs ? EXPIRED : null;
}

/** The only header with a name; undefined: absent. Null: it was sent several times. */
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

import type { Key } from '#db/fold/key.ts';
import { Refusal } from '#server/errors.ts';
import { digestSecret, keyIdOf, sameDigest } from '#server/key-secret.ts';
import type { ReadModel } from '#server/read-model.ts';

/** The scheme in any letter case (HTTP says so), one space, visible ASCII to the end. */
const BEARER = /^bearer ([\x21-\x7e]+)$/i;

// One object each, since floods of them are refused.
const MISSING = new Refusal('missing_api_key');
const INVALID = new Refusal('invalid_api_key');
const EXPIRED = new Refusal('expired_api_key');
const REVOKED = new Refusal('revoked_api_key');

/**
 * Who is calling: exactly one Authorization header with a key that is good now. Runs before the
 * body is read. All that is wrong with the header or unknown is the same `invalid_api_key`; that a
 * key has expired or was revoked is only told to somebody who holds its secret.
 */
export function authenticate(
  rawHeaders: readonly string[],
  readModel: ReadModel,
  pepper: Buffer,
): Key | Refusal {
  const header = soleAuthorization(rawHeaders);
  if (header === undefined) return MISSING;
  const secret = header === null ? undefined : BEARER.exec(header)?.[1];
  const keyId = secret === undefined ? null : keyIdOf(secret);
  if (secret === undefined || keyId === null) return INVALID;

  const key = readModel.key(keyId);
  const digest = digestSecret(pepper, secret);
  if (!key) return INVALID;
  const nowMs = readModel.nowMs();
  const isCurrent = sameDigest(digest, key.secret.digest);
  const isPrevious = key.previous !== null && sameDigest(digest, key.previous.digest);
  if (!isCurrent && !isPrevious) return INVALID;
  const ended = judgeKey(key, nowMs);
  if (ended) return ended;
  if (!isCurrent && key.previous && key.previous.endsAt.getTime() <= nowMs) return REVOKED;
  return key;
}

/** Whether a key has come to its end; null when it is good. */
export function judgeKey(key: Key, nowMs: number): Refusal | null {
  if (key.revokedAt) return REVOKED;
  return key.expiresAt && key.expiresAt.getTime() <= nowMs ? EXPIRED : null;
}

/** The one Authorization header; undefined when there is none, null when there are several. */
function soleAuthorization(rawHeaders: readonly string[]): string | null | undefined {
  let found: string | undefined;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index] as string;
    if (name.length !== 13 || name.toLowerCase() !== 'authorization') continue;
    if (found !== undefined) return null;
    found = rawHeaders[index + 1] as string;
  }
  return found;
}

import { grants, type ManagementScope } from '#db/events/management-scopes.ts';
import { type ManagementKey, managementKeyState } from '#db/fold/management-key.ts';
import { readBearerSecret } from '#server/access/authenticate.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { digestSecret, managementKeyIdOf, sameDigest } from '#server/secrets/key-secret.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';

const INVALID = new ApiError('invalid_management_key');

/** A management key in place of a signed-in member. */
export type KeyCaller = Caller & { scopes: readonly ManagementScope[] };

/**
 * The caller that the management key of a request stands for. A key of an account has the permissions of its
 * members, one of the installation those of administrators, each within its scopes. That a key has expired
 * or was revoked is only reported to a caller that has its secret.
 */
export function authenticateManagementKey(
  rawHeaders: readonly string[],
  readModel: ReadModel,
  pepper: Buffer,
): KeyCaller | ApiError {
  const secret = readBearerSecret(rawHeaders) ?? '';
  const id = managementKeyIdOf(secret);
  if (id === null) return INVALID;
  if (!readModel.isCurrent()) return new ApiError('store_unavailable');
  // Its secret may have been changed by an event that this version can't apply, so it must not look wrong.
  if (readModel.unapplied.of('management_key', id)) return new ApiError('relay_outdated');
  const digest = digestSecret(pepper, secret);
  const key = readModel.managementKeys.get(id);
  if (!key || !sameDigest(digest, key.secret.digest)) return INVALID;
  switch (managementKeyState(key, new Date(readModel.nowMs()))) {
    case 'revoked':
      return new ApiError('management_key_revoked');
    case 'expired':
      return new ApiError('management_key_expired');
    case 'active':
      return callerOf(key);
  }
}

const callerOf = ({ id, account, scopes }: ManagementKey): KeyCaller => ({
  actor: `management_key/${id}`,
  role: account === null ? 'administrator' : 'member',
  ownAccount: account,
  session: null,
  scopes,
});

/**
 * The error of a key that lacks the scope of a route; null: it has it.
 * @param scope null: no key may use the route.
 */
export function checkScope({ scopes }: KeyCaller, scope: ManagementScope | null): ApiError | null {
  if (scope === null)
    return new ApiError('insufficient_scope', {
      message: 'Management keys can’t use this route. Sign in to the dashboard.',
    });
  return grants(scopes, scope)
    ? null
    : new ApiError('insufficient_scope', {
        message: `This management key lacks the scope "${scope}". Create one that has it.`,
      });
}

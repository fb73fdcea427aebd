import type { EventOf } from '#db/events/events.ts';
import type { ManagementScope } from '#db/events/management-scopes.ts';
import type { Secret } from '#db/fold/key.ts';
import { type ManagementKey, managementKeyState } from '#db/fold/management-key.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { MANAGEMENT_KEYS_ACTIVE_MAX } from '#server/decide/bounds.ts';

/**
 * Creates a management key.
 * @param command.existing all management keys of the same account, or those of the installation.
 * @throws {DecisionError} `not_allowed` when there are too many; `invalid` for an expiry in the past.
 */
export function createManagementKey(
  command: {
    id: string;
    name: string;
    secret: Secret;
    scopes: readonly ManagementScope[];
    account: string | null;
    expiresAt: Date | null;
    existing: readonly ManagementKey[];
    actor: string;
  },
  now: Date,
): EventOf<'management_key.created'> {
  const { id, name, secret, scopes, account, expiresAt, existing, actor } = command;
  if (expiresAt && expiresAt <= now)
    throw new DecisionError('invalid', `The expiry ${expiresAt.toISOString()} is in the past.`);
  const active = existing.filter((key) => managementKeyState(key, now) === 'active').length;
  if (active >= MANAGEMENT_KEYS_ACTIVE_MAX)
    throw new DecisionError(
      'not_allowed',
      `There are ${MANAGEMENT_KEYS_ACTIVE_MAX} active management keys already, the maximum. ` +
        'Revoke an unused one first.',
    );
  return {
    type: 'management_key.created',
    management_key: id,
    name,
    ...secret,
    scopes: [...scopes],
    ...(account === null ? {} : { account }),
    ...(expiresAt === null ? {} : { expires_at: expiresAt.toISOString() }),
    actor,
  };
}

/** Revokes a management key permanently; null if it is revoked already. */
export function revokeManagementKey(
  { id, account, revokedAt }: ManagementKey,
  actor: string,
): EventOf<'management_key.revoked'> | null {
  return revokedAt
    ? null
    : {
        type: 'management_key.revoked',
        management_key: id,
        ...(account === null ? {} : { account }),
        actor,
      };
}

/** The management key that a command names. */
export function requireManagementKey(key: ManagementKey | undefined, id: string): ManagementKey {
  if (!key) throw new DecisionError('not_found', `There is no management key ${id}.`);
  return key;
}

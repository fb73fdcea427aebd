import type { ManagementScope } from '#db/events/management-scopes.ts';
import type { ManagementKeyEvent } from '#db/events/subjects.ts';
import type { Secret } from '#db/fold/key.ts';
import type { Stored } from '#db/fold/stored.ts';

/** A management key's record. Its secret is known only by its digest. */
export type ManagementKey = {
  id: string;
  name: string;
  secret: Secret;
  scopes: readonly ManagementScope[];
  /** The one account that it manages; null: the whole installation. */
  account: string | null;
  /** Who created it. */
  createdBy: string;
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

export type ManagementKeyState = 'active' | 'expired' | 'revoked';

/** The key after the next event of its stream; undefined where it was never created. */
export function evolveManagementKey(
  key: ManagementKey | undefined,
  { event, at, version }: Stored<ManagementKeyEvent>,
): ManagementKey | undefined {
  switch (event.type) {
    case 'management_key.created':
      return {
        id: event.management_key,
        name: event.name,
        secret: { digest: event.digest, last4: event.last4 },
        scopes: event.scopes,
        account: event.account ?? null,
        createdBy: event.actor,
        createdAt: at,
        expiresAt: event.expires_at === undefined ? null : new Date(event.expires_at),
        revokedAt: null,
        version,
      };
    case 'management_key.revoked':
      return key && { ...key, revokedAt: at, version };
  }
}

/** What a key is at a moment. Expiry needs no event to take effect. */
export function managementKeyState(
  { revokedAt, expiresAt }: Pick<ManagementKey, 'revokedAt' | 'expiresAt'>,
  now: Date,
): ManagementKeyState {
  if (revokedAt) return 'revoked';
  return expiresAt && expiresAt <= now ? 'expired' : 'active';
}

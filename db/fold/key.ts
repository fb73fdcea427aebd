import type { KeyTerms } from '#db/events/events.ts';
import type { KeyEvent } from '#db/events/subjects.ts';
import type { Stored } from '#db/fold/stored.ts';

/** An API key's record. Its secrets are known only by their digests. */
export type Key = {
  id: string;
  account: string;
  name: string;
  createdAt: Date;
  expiresAt: Date | null;
  /** When its expiry was recorded, at or after `expiresAt`; null before that. */
  expiredAt: Date | null;
  revokedAt: Date | null;
  secret: Secret;
  /** The workload whose short-lived keys it stands for, in place of the secret; null: none. */
  workload: string | null;
  /** The secret before the last rotation, while its overlap lasts. */
  previous: (Secret & { endsAt: Date }) | null;
  /** Its limits below those of its account; null: no further limits. */
  terms: KeyTerms | null;
  /** The position of its newest event that changed its terms, or 0. */
  termsPosition: number;
  /** The position of its newest event that reset its windows, or 0. */
  resetPosition: number;
  /** The version that its stream has reached; the next event takes `version + 1`. */
  version: number;
};

/** HMAC-SHA-256 of the plaintext under the pepper, in hex, and the last characters people see. */
export type Secret = { digest: string; last4: string };

export type KeyState = 'active' | 'rotating' | 'expired' | 'revoked';

/** The key after the next event of its stream; undefined where it was never created. */
export function evolveKey(key: Key | undefined, stored: Stored<KeyEvent>): Key | undefined {
  const { event, at, version } = stored;
  if (event.type === 'key.created') {
    return {
      id: event.key,
      account: event.account,
      name: event.name,
      createdAt: at,
      expiresAt: event.expires_at === undefined ? null : new Date(event.expires_at),
      expiredAt: null,
      revokedAt: null,
      secret: { digest: event.digest, last4: event.last4 },
      workload: event.workload ?? null,
      previous: null,
      terms: null,
      termsPosition: 0,
      resetPosition: 0,
      version,
    };
  }
  return key && { ...key, ...changeBy(event, key, stored), version };
}

function changeBy(
  event: Exclude<KeyEvent, { type: 'key.created' }>,
  key: Key,
  { at, position }: Stored<KeyEvent>,
): Partial<Key> {
  switch (event.type) {
    case 'key.rotated': {
      const endsAt = event.overlap_ends_at;
      return {
        secret: { digest: event.digest, last4: event.last4 },
        previous: endsAt === undefined ? null : { ...key.secret, endsAt: new Date(endsAt) },
      };
    }
    case 'key.revoked':
      return { revokedAt: at, previous: null };
    case 'key.expired':
      return { expiredAt: at };
    case 'key.renamed':
      return { name: event.name };
    case 'key.restricted': {
      const expiresAt = event.expires_at;
      return {
        terms: Object.keys(event.terms).length === 0 ? null : event.terms,
        termsPosition: position,
        resetPosition: event.windows === 'reset' ? position : key.resetPosition,
        // A changed expiry clears `expiredAt`: the key is active again, or expires once more.
        ...(expiresAt !== undefined && {
          expiresAt: expiresAt === null ? null : new Date(expiresAt),
          expiredAt: null,
        }),
      };
    }
  }
}

/** What a key is at a moment. Expiry needs no event to take effect. */
export function keyState(key: Key, now: Date): KeyState {
  if (key.revokedAt) return 'revoked';
  if (key.expiresAt && key.expiresAt <= now) return 'expired';
  if (key.previous && key.previous.endsAt > now) return 'rotating';
  return 'active';
}

/** Whether requests with a secret of this key are authenticated at that time. */
export function isActiveKey(key: Key, now: Date): boolean {
  const state = keyState(key, now);
  return state === 'active' || state === 'rotating';
}

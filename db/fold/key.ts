import type { ControlEvent } from '#db/events.ts';

/** An API key's record. Its secrets are known only by their digests. */
export type Key = {
  id: string;
  account: string;
  name: string;
  createdAt: Date;
  expiresAt: Date | null;
  revokedAt: Date | null;
  secret: Secret;
  /** The secret before the last rotation, while its overlap lasts. */
  previous: (Secret & { endsAt: Date }) | null;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/** HMAC-SHA-256 of the plaintext under the pepper, in hex, and the last characters people see. */
export type Secret = { digest: string; last4: string };

export type KeyState = 'active' | 'rotating' | 'expired' | 'revoked';

/** The key after one more event of its own stream; `at` is the event's time in the log. */
export function evolveKey(key: Key | undefined, event: ControlEvent, at: Date): Key | undefined {
  switch (event.type) {
    case 'key.created':
      return {
        id: event.key,
        account: event.account,
        name: event.name,
        createdAt: at,
        expiresAt: event.expires_at === undefined ? null : new Date(event.expires_at),
        revokedAt: null,
        secret: { digest: event.digest, last4: event.last4 },
        previous: null,
        version: 1,
      };
    case 'key.rotated':
      return (
        key && {
          ...key,
          secret: { digest: event.digest, last4: event.last4 },
          previous:
            event.overlap_ends_at === undefined ? null : { ...key.secret, endsAt: new Date(event.overlap_ends_at) },
          version: key.version + 1,
        }
      );
    case 'key.revoked':
      return key && { ...key, revokedAt: at, previous: null, version: key.version + 1 };
    case 'account.registered':
    case 'account.suspended':
    case 'account.reinstated':
      return key;
  }
}

/** What a key is at a moment. Expiry needs no event to take effect. */
export function keyState(key: Key, now: Date): KeyState {
  if (key.revokedAt) return 'revoked';
  if (key.expiresAt && key.expiresAt <= now) return 'expired';
  if (key.previous && key.previous.endsAt > now) return 'rotating';
  return 'active';
}

import type { ControlEvent, KeyTerms } from '#db/events/events.ts';

/** An API key's record. Its secrets are known only by their digests. */
export type Key = {
  id: string;
  account: string;
  name: string;
  createdAt: Date;
  expiresAt: Date | null;
  /** When its expiry was put down, which is at or after `expiresAt`; null while it has not been. */
  expiredAt: Date | null;
  revokedAt: Date | null;
  secret: Secret;
  /** The secret before the last rotation, while its overlap lasts. */
  previous: (Secret & { endsAt: Date }) | null;
  /** What it may use of what its account may; null: all of that. */
  terms: KeyTerms | null;
  /** The position of its newest event that changed its terms; 0 when there is none. */
  termsPosition: number;
  /** The position of its newest event that began its windows anew; 0 when there is none. */
  resetPosition: number;
  /** How many events its stream has; the next one takes `version + 1`. */
  version: number;
};

/** HMAC-SHA-256 of the plaintext under the pepper, in hex, and the last characters people see. */
export type Secret = { digest: string; last4: string };

export type KeyState = 'active' | 'rotating' | 'expired' | 'revoked';

/**
 * The key after one more event of its own stream; events of other subjects change nothing.
 * @param at the event's time in the log.
 * @param position where it stands there.
 */
export function evolveKey(
  key: Key | undefined,
  event: ControlEvent,
  at: Date,
  position: number,
): Key | undefined {
  switch (event.type) {
    case 'key.created':
      return {
        id: event.key,
        account: event.account,
        name: event.name,
        createdAt: at,
        expiresAt: event.expires_at === undefined ? null : new Date(event.expires_at),
        expiredAt: null,
        revokedAt: null,
        secret: { digest: event.digest, last4: event.last4 },
        previous: null,
        terms: null,
        termsPosition: 0,
        resetPosition: 0,
        version: 1,
      };
    case 'key.rotated':
      return (
        key && {
          ...key,
          secret: { digest: event.digest, last4: event.last4 },
          previous:
            event.overlap_ends_at === undefined
              ? null
              : { ...key.secret, endsAt: new Date(event.overlap_ends_at) },
          version: key.version + 1,
        }
      );
    case 'key.revoked':
      return key && { ...key, revokedAt: at, previous: null, version: key.version + 1 };
    case 'key.expired':
      return key && { ...key, expiredAt: at, version: key.version + 1 };
    case 'key.renamed':
      return key && { ...key, name: event.name, version: key.version + 1 };
    case 'key.restricted':
      return (
        key && {
          ...key,
          terms: Object.keys(event.terms).length === 0 ? null : event.terms,
          termsPosition: position,
          resetPosition: event.windows === 'reset' ? position : key.resetPosition,
          // With another end it lives again, or ends anew.
          ...(event.expires_at === undefined
            ? {}
            : { expiresAt: event.expires_at === null ? null : new Date(event.expires_at), expiredAt: null }),
          version: key.version + 1,
        }
      );
    default:
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

/** Whether it is good at a moment: calls with a secret of it are let in. */
export function isGoodKey(key: Key, now: Date): boolean {
  const state = keyState(key, now);
  return state === 'active' || state === 'rotating';
}

import type { EventOf } from '#db/events.ts';
import { type Key, keyState, type Secret } from '#db/fold/key.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** The longest that an old secret may live beside its successor. */
export const OVERLAP_MAX_MS = 30 * 24 * 60 * 60 * 1000;

/** Creates a key. An expiry in the past is refused: it is always a mistake. */
export function createKey(
  command: { id: string; account: string; name: string; secret: Secret; expiresAt: Date | null; actor: string },
  now: Date,
): EventOf<'key.created'> {
  if (command.expiresAt && command.expiresAt <= now) {
    throw new DecisionError('invalid', `The expiry ${command.expiresAt.toISOString()} is in the past.`);
  }
  return {
    type: 'key.created',
    account: command.account,
    key: command.id,
    name: command.name,
    ...command.secret,
    ...(command.expiresAt ? { expires_at: command.expiresAt.toISOString() } : {}),
    actor: command.actor,
  };
}

/** Gives a key a new secret. The old one ends at once, or after an overlap of up to 30 days. */
export function rotateKey(
  key: Key,
  command: { secret: Secret; overlapMs: number; actor: string },
  now: Date,
): EventOf<'key.rotated'> {
  const state = keyState(key, now);
  if (state === 'revoked' || state === 'expired') {
    throw new DecisionError('not_allowed', `Key ${key.id} is ${state}; create a new key instead.`);
  }
  if (!(command.overlapMs >= 0 && command.overlapMs <= OVERLAP_MAX_MS)) {
    throw new DecisionError('invalid', 'The overlap must be between 0 and 30 days.');
  }
  return {
    type: 'key.rotated',
    account: key.account,
    key: key.id,
    ...command.secret,
    ...(command.overlapMs > 0 ? { overlap_ends_at: new Date(now.getTime() + command.overlapMs).toISOString() } : {}),
    actor: command.actor,
  };
}

/** Ends a key for good, its overlap too; null when it is revoked already. */
export function revokeKey(key: Key, actor: string): EventOf<'key.revoked'> | null {
  return key.revokedAt ? null : { type: 'key.revoked', account: key.account, key: key.id, actor };
}

/** The key that a command names. */
export function requireKey(key: Key | undefined, id: string): Key {
  if (!key) throw new DecisionError('not_found', `There is no key ${id}.`);
  return key;
}

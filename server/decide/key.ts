import type { EventOf, KeyTerms } from '#db/events/events.ts';
import { isGoodKey, type Key, keyState, type Secret } from '#db/fold/key.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { WindowsChoice } from '#server/decide/plan.ts';
import { sameTerms } from '#server/decide/terms.ts';
import { KEYS_ACTIVE_MAX, KEYS_EVER_MAX, OVERLAP_MAX_MS } from '#server/decide/bounds.ts';

/** How many keys an account has: those that can be used now, and those that it ever had. */
export type KeyCounts = { active: number; ever: number };

export function countKeys(keys: readonly Key[], now: Date): KeyCounts {
  return { active: keys.filter((key) => isGoodKey(key, now)).length, ever: keys.length };
}

/**
 * Creates a key. An expiry in the past is rejected: it is always a mistake.
 * @throws {DecisionError} `not_allowed` where the account has as many keys as it may.
 */
export function createKey(
  command: {
    id: string;
    account: string;
    /** The keys that the account has already. */
    existing: KeyCounts;
    name: string;
    secret: Secret;
    expiresAt: Date | null;
    actor: string;
  },
  now: Date,
): EventOf<'key.created'> {
  if (command.expiresAt) requireToCome(command.expiresAt, now);
  const { active, ever } = command.existing;
  if (ever >= KEYS_EVER_MAX) {
    throw new DecisionError(
      'not_allowed',
      `This account already has ${KEYS_EVER_MAX} keys, revoked and expired ones included, which is the most ` +
        'it may have. Rotate a key instead of creating one, or use another account.',
    );
  }
  if (active >= KEYS_ACTIVE_MAX) {
    throw new DecisionError(
      'not_allowed',
      `This account already has ${KEYS_ACTIVE_MAX} active keys, which is the most it may have. Revoke an ` +
        'unused key first.',
    );
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

/** The same with terms of its own from the start. Both events are one append: no call comes between them. */
export function createNarrowedKey(
  command: Parameters<typeof createKey>[0] & { terms: KeyTerms },
  now: Date,
): EventOf<'key.created' | 'key.restricted'>[] {
  const { terms, ...rest } = command;
  const created = createKey(rest, now);
  if (Object.keys(terms).length === 0) return [created];
  const { account, key, actor } = created;
  return [created, { type: 'key.restricted', account, key, terms, windows: 'keep', actor }];
}

/** Gives a key another name; null when it has this one. */
export function renameKey(key: Key, name: string, actor: string): EventOf<'key.renamed'> | null {
  if (key.revokedAt)
    throw new DecisionError('not_allowed', `Key ${key.id} is revoked; its name stays as it is in the log.`);
  return key.name === name ? null : { type: 'key.renamed', account: key.account, key: key.id, name, actor };
}

/** Gives a key a new secret. The old one ends at once, or after an overlap of up to 30 days. */
export function rotateKey(
  key: Key,
  command: { secret: Secret; overlapMs: number; actor: string },
  now: Date,
): EventOf<'key.rotated'> {
  requireGood(key, now);
  if (!(command.overlapMs >= 0 && command.overlapMs <= OVERLAP_MAX_MS)) {
    throw new DecisionError('invalid', 'The overlap must be between 0 and 30 days.');
  }
  return {
    type: 'key.rotated',
    account: key.account,
    key: key.id,
    ...command.secret,
    ...(command.overlapMs > 0
      ? { overlap_ends_at: new Date(now.getTime() + command.overlapMs).toISOString() }
      : {}),
    actor: command.actor,
  };
}

/**
 * Gives a key whose secret has got about a new one. Without an overlap, so that the old secret ends
 * with this event; and since a key remembers one old secret alone, whatever was left of an earlier
 * overlap ends as well: it may be that older one which leaked.
 */
export function replaceLeaked(
  key: Key,
  command: { secret: Secret; actor: string },
  now: Date,
): EventOf<'key.rotated'> {
  return rotateKey(key, { ...command, overlapMs: 0 }, now);
}

/** Ends a key for good, its overlap too; null when it is revoked already. */
export function revokeKey(key: Key, actor: string): EventOf<'key.revoked'> | null {
  return key.revokedAt ? null : { type: 'key.revoked', account: key.account, key: key.id, actor };
}

/** What is to be changed of a key's terms. */
export type Restriction = {
  /** These fields take the place of those the key had. */
  set: KeyTerms;
  /** These fields are taken away, so that they no longer narrow anything. */
  drop: readonly (keyof KeyTerms)[];
  /** Takes away all that the key had, before the others. */
  clear: boolean;
  /** When the key ends; null: never; undefined: as before. */
  expiresAt: Date | null | undefined;
  windows: WindowsChoice;
};

/**
 * Narrows what a key may use, or widens it again up to what its account may; null when that changes nothing.
 */
export function restrictKey(
  key: Key,
  command: Restriction & { actor: string },
  now: Date,
): EventOf<'key.restricted'> | null {
  const { set, drop, clear, expiresAt, windows, actor } = command;
  requireGood(key, now);
  if (expiresAt) requireToCome(expiresAt, now);
  const terms: KeyTerms = { ...(clear ? {} : key.terms), ...set };
  for (const field of drop) delete terms[field];
  const sameExpiry = expiresAt === undefined || expiresAt?.getTime() === key.expiresAt?.getTime();
  if (windows === 'keep' && sameExpiry && sameTerms(key.terms ?? {}, terms)) return null;
  return {
    type: 'key.restricted',
    account: key.account,
    key: key.id,
    terms,
    ...(sameExpiry ? {} : { expires_at: expiresAt?.toISOString() ?? null }),
    windows,
    actor,
  };
}

function requireGood(key: Key, now: Date): void {
  const state = keyState(key, now);
  if (state !== 'revoked' && state !== 'expired') return;
  throw new DecisionError('not_allowed', `Key ${key.id} is ${state}; create a new key instead.`);
}

function requireToCome(expiresAt: Date, now: Date): void {
  if (expiresAt <= now)
    throw new DecisionError('invalid', `The expiry ${expiresAt.toISOString()} is in the past.`);
}

/** The key that a command names. */
export function requireKey(key: Key | undefined, id: string): Key {
  if (!key) throw new DecisionError('not_found', `There is no key ${id}.`);
  return key;
}

import type { EventOf, KeyTerms } from '#db/events/events.ts';
import { isActiveKey, type Key, keyState, type Secret } from '#db/fold/key.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { WindowsChoice } from '#server/decide/plan.ts';
import { sameTerms } from '#server/decide/terms.ts';
import { KEYS_ACTIVE_MAX, KEYS_EVER_MAX, OVERLAP_MAX_MS } from '#server/decide/bounds.ts';

/** An account's number of active keys, and of all keys it ever had. */
export type KeyCounts = { active: number; ever: number };

export function countKeys(keys: readonly Key[], now: Date): KeyCounts {
  return { active: keys.filter((key) => isActiveKey(key, now)).length, ever: keys.length };
}

/**
 * Creates a key. An expiry in the past is rejected: it is always a mistake.
 * @throws {DecisionError} `not_allowed` when the account has the maximum number of keys.
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
    workload?: string;
    actor: string;
  },
  now: Date,
): EventOf<'key.created'> {
  if (command.expiresAt) requireFuture(command.expiresAt, now);
  const { active, ever } = command.existing;
  if (ever >= KEYS_EVER_MAX) {
    throw new DecisionError(
      'not_allowed',
      `This account already has ${KEYS_EVER_MAX} keys, revoked and expired ones included, ` +
        'which is the maximum. Rotate a key instead of creating one, or use another account.',
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
    ...(command.workload === undefined ? {} : { workload: command.workload }),
    actor: command.actor,
  };
}

/** Creates a key with restrictions. Both events are one append, so no call sees the key without them. */
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

/** Renames a key; null if the name is unchanged. */
export function renameKey(key: Key, name: string, actor: string): EventOf<'key.renamed'> | null {
  if (key.revokedAt)
    throw new DecisionError('not_allowed', `Key ${key.id} is revoked; its name stays as it is in the log.`);
  return key.name === name ? null : { type: 'key.renamed', account: key.account, key: key.id, name, actor };
}

/** Rotates a key's secret. The old one becomes invalid at once, or after an overlap of up to 30 days. */
export function rotateKey(
  key: Key,
  command: { secret: Secret; overlapMs: number; actor: string },
  now: Date,
): EventOf<'key.rotated'> {
  requireActiveKey(key, now);
  if (key.workload !== null)
    throw new DecisionError(
      'not_allowed',
      `Key ${key.id} has no secret to rotate: workload "${key.workload}" issues short-lived ones.`,
    );
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
 * Replaces the secret of a key that leaked. There is no overlap, so the old secret becomes invalid at once. A
 * key has at most one previous secret, so an earlier overlap ends too: the older secret may be the one that
 * leaked.
 */
export function replaceLeaked(
  key: Key,
  command: { secret: Secret; actor: string },
  now: Date,
): EventOf<'key.rotated'> {
  return rotateKey(key, { ...command, overlapMs: 0 }, now);
}

/** Revokes a key and its overlap permanently; null if it is revoked already. */
export function revokeKey(key: Key, actor: string): EventOf<'key.revoked'> | null {
  return key.revokedAt ? null : { type: 'key.revoked', account: key.account, key: key.id, actor };
}

/** A change to a key's restrictions. */
export type Restriction = {
  /** Fields to set. */
  set: KeyTerms;
  /** Fields to remove, which lifts their restrictions. */
  drop: readonly (keyof KeyTerms)[];
  /** Whether to remove all restrictions first. */
  clear: boolean;
  /** When the key expires; null: never; undefined: unchanged. */
  expiresAt: Date | null | undefined;
  windows: WindowsChoice;
};

/** Changes a key's restrictions within the terms of its account; null if nothing changes. */
export function restrictKey(
  key: Key,
  command: Restriction & { actor: string },
  now: Date,
): EventOf<'key.restricted'> | null {
  const { expiresAt, windows, actor } = command;
  requireActiveKey(key, now);
  if (expiresAt) requireFuture(expiresAt, now);
  const terms = restrictedTerms(key.terms, command);
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

/** The terms of a key after a change. */
export function restrictedTerms(
  before: KeyTerms | null,
  { set, drop, clear }: Pick<Restriction, 'set' | 'drop' | 'clear'>,
): KeyTerms {
  const terms: KeyTerms = { ...(clear ? {} : before), ...set };
  for (const field of drop) delete terms[field];
  return terms;
}

function requireActiveKey(key: Key, now: Date): void {
  const state = keyState(key, now);
  if (state !== 'revoked' && state !== 'expired') return;
  throw new DecisionError('not_allowed', `Key ${key.id} is ${state}; create a new key instead.`);
}

function requireFuture(expiresAt: Date, now: Date): void {
  if (expiresAt <= now)
    throw new DecisionError('invalid', `The expiry ${expiresAt.toISOString()} is in the past.`);
}

/** The key that a command names. */
export function requireKey(key: Key | undefined, id: string): Key {
  if (!key) throw new DecisionError('not_found', `There is no key ${id}.`);
  return key;
}

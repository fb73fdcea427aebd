import { describe, expect, test } from 'vitest';
import type { Account } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import { registerAccount, reinstateAccount, requireAccount, suspendAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { createKey, OVERLAP_MAX_MS, requireKey, revokeKey, rotateKey } from '#server/decide/key.ts';

const NOW = new Date('2026-01-01T00:00:00.000Z');
const HOUR_MS = 60 * 60 * 1000;
const after = (ms: number): Date => new Date(NOW.getTime() + ms);

const active: Account = { id: 'Account1', name: 'first', state: 'active', version: 3 };
const suspended: Account = { ...active, state: 'suspended' };

describe('given an account', () => {
  test('none, when one is registered, then it is', () => {
    const event = { type: 'account.registered', account: 'Account1', name: 'first', actor: 'command-line' };
    expect(registerAccount({ id: 'Account1', name: 'first', actor: 'command-line' })).toEqual(event);
  });

  test('that is active, when it is suspended, then it is, and a second time nothing happens', () => {
    expect(suspendAccount(active, 'command-line')).toEqual({ type: 'account.suspended', account: 'Account1', actor: 'command-line' });
    expect(suspendAccount(suspended, 'command-line')).toBeNull();
  });

  test('that is suspended, when it is reinstated, then it is, and a second time nothing happens', () => {
    expect(reinstateAccount(suspended, 'command-line')).toEqual({ type: 'account.reinstated', account: 'Account1', actor: 'command-line' });
    expect(reinstateAccount(active, 'command-line')).toBeNull();
  });

  test('that is not there, when a command names it, then its sender is told', () => {
    expect(requireAccount(active, 'first')).toBe(active);
    expect(() => requireAccount(undefined, 'frist')).toThrow(new DecisionError('not_found', 'There is no account named "frist".'));
  });
});

const secret = { digest: 'b'.repeat(64), last4: 'bbbb' };
const key: Key = {
  id: 'Key00001',
  account: 'Account1',
  name: 'laptop',
  createdAt: after(-HOUR_MS),
  expiresAt: null,
  revokedAt: null,
  secret: { digest: 'a'.repeat(64), last4: 'aaaa' },
  previous: null,
  version: 1,
};

/** What an error of a decision says by its code. */
const fails = (code: DecisionError['code'], message: string): object => expect.objectContaining({ code, message: expect.stringContaining(message) }) as object;

describe('given no key, when one is created', () => {
  const create = (expiresAt: Date | null) => createKey({ id: 'Key00001', account: 'Account1', name: 'laptop', secret, expiresAt, actor: 'command-line' }, NOW);

  test('then its digest is in the event and its secret is not asked for', () => {
    expect(create(null)).toEqual({
      type: 'key.created',
      account: 'Account1',
      key: 'Key00001',
      name: 'laptop',
      digest: secret.digest,
      last4: 'bbbb',
      actor: 'command-line',
    });
  });

  test('with an expiry to come, then it has it', () => {
    expect(create(after(1))).toMatchObject({ expires_at: '2026-01-01T00:00:00.001Z' });
  });

  test.each([0, -1, -HOUR_MS])('with an expiry that is over by %i ms, then it is refused', (ms) => {
    expect(() => create(after(ms))).toThrow(fails('invalid', 'is in the past'));
  });
});

describe('given a key, when it is rotated', () => {
  const rotate = (given: Key, overlapMs: number) => rotateKey(given, { secret, overlapMs, actor: 'command-line' }, NOW);

  test('without overlap, then the old secret ends with the event', () => {
    expect(rotate(key, 0)).toEqual({ type: 'key.rotated', account: 'Account1', key: 'Key00001', ...secret, actor: 'command-line' });
  });

  test.each([1, HOUR_MS, OVERLAP_MAX_MS])('with an overlap of %i ms, then the old secret lives that long by the clock of the store', (ms) => {
    expect(rotate(key, ms)).toMatchObject({ overlap_ends_at: after(ms).toISOString() });
  });

  test.each([-1, OVERLAP_MAX_MS + 1, NaN, Infinity])('with an overlap of %d ms, then it is refused', (ms) => {
    expect(() => rotate(key, ms)).toThrow(fails('invalid', 'between 0 and 30 days'));
  });

  test('again within its overlap, then it is rotated', () => {
    const rotating = { ...key, previous: { ...secret, endsAt: after(HOUR_MS) } };
    expect(rotate(rotating, HOUR_MS)).toMatchObject({ type: 'key.rotated' });
  });

  test.each<[string, Key]>([
    ['revoked', { ...key, revokedAt: after(-1) }],
    ['expired', { ...key, expiresAt: NOW }],
  ])('though it is %s, then that would bring it back, and is refused', (state, given) => {
    expect(() => rotate(given, 0)).toThrow(fails('not_allowed', `is ${state}`));
  });
});

describe('given a key, when it is revoked', () => {
  test('then it is, whatever its state, and a second time nothing happens', () => {
    const event = { type: 'key.revoked', account: 'Account1', key: 'Key00001', actor: 'command-line' };
    expect(revokeKey(key, 'command-line')).toEqual(event);
    expect(revokeKey({ ...key, expiresAt: after(-1) }, 'command-line')).toEqual(event);
    expect(revokeKey({ ...key, revokedAt: after(-1) }, 'command-line')).toBeNull();
  });

  test('that is not there, then its sender is told', () => {
    expect(requireKey(key, key.id)).toBe(key);
    expect(() => requireKey(undefined, 'Key00009')).toThrow(fails('not_found', 'Key00009'));
  });
});

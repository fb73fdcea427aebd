import { describe, expect, test } from 'vitest';
import { parseEvent } from '#db/events/events.ts';
import { adjustedSubject } from '#db/events/quota-events.ts';
import type { Account } from '#db/fold/account.ts';
import type { Key } from '#db/fold/key.ts';
import type { Plan } from '#db/fold/plan.ts';
import {
  overrideTerms,
  registerAccount,
  reinstateAccount,
  requireAccount,
  setParent,
  setPlan,
  suspendAccount,
  topUp,
} from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import {
  createKey,
  requireKey,
  type Restriction,
  restrictKey,
  revokeKey,
  rotateKey,
} from '#server/decide/key.ts';
import { KEYS_ACTIVE_MAX, KEYS_EVER_MAX, OVERLAP_MAX_MS } from '#server/decide/bounds.ts';
import type { Limit } from '#db/limits/limits.ts';
import { adjustQuotas } from '#server/decide/quota.ts';
import { definePlan, requirePlan, retirePlan } from '#server/decide/plan.ts';

const NOW = new Date('2026-01-01T00:00:00.000Z');
const HOUR_MS = 60 * 60 * 1000;
const after = (ms: number): Date => new Date(NOW.getTime() + ms);

const unlimited = {
  plan: null,
  override: null,
  parent: null,
  toppedUp: 0,
  termsPosition: 0,
  resetPosition: 0,
};
const active: Account = { id: 'Account1', name: 'first', state: 'active', ...unlimited, version: 3 };
const suspended: Account = { ...active, state: 'suspended' };

test('an adjustment names the subject whose quota it changes', () => {
  const limits = [
    { meter: 'tokens', window: 'lifetime', cap: 9, enforcement: 'hard', reset: 0 },
  ] as const satisfies Limit[];
  const names = [
    'account/Account1',
    'end_user/Account1/0123456789abcdef',
    'account/Parent01',
    'tag/Parent01/0123456789abcdef',
    'key/Key00001',
    'session/Account1/Key00001/0123456789abcdef',
  ];
  const { events, adjustments } = adjustQuotas({
    account: 'Account1',
    subjects: names.map((subject) => ({ subject, limits, position: 3, replyTokensMax: null })),
    meter: 'tokens',
    amount: -2,
    window: null,
    key: 'Key00001',
    minute: 7,
    reason: 'test',
    actor: 'command-line',
  });
  expect(adjustments.map(({ subject }) => subject)).toEqual(names);
  expect(events.map(adjustedSubject)).toEqual(names);
  expect(events.every(({ account }) => account === 'Account1')).toBe(true);
  for (const event of events) expect(parseEvent(event)).toEqual(event);
});

describe('given an account', () => {
  test('none, when one is registered, then it is', () => {
    const event = { type: 'account.registered', account: 'Account1', name: 'first', actor: 'command-line' };
    expect(registerAccount({ id: 'Account1', name: 'first', actor: 'command-line' })).toEqual(event);
  });

  test('that is active, when it is suspended, then it is, and a second time nothing happens', () => {
    expect(suspendAccount(active, 'command-line')).toEqual({
      type: 'account.suspended',
      account: 'Account1',
      actor: 'command-line',
    });
    expect(suspendAccount(suspended, 'command-line')).toBeNull();
  });

  test('when it is put below another one, then it is, without circles and with three levels at most', () => {
    const named = (id: string, parent: string | null): Account => ({ ...active, id, name: id, parent });
    const all = (...accounts: Account[]) => new Map(accounts.map((each) => [each.id, each]));
    const [top, middle, leaf, other] = [
      named('top', null),
      named('middle', 'top'),
      named('leaf', 'middle'),
      named('other', null),
    ];
    const accounts = all(top, middle, leaf, other);
    const put = (account: Account, parent: Account | null) =>
      setParent(account, { parent, accounts, actor: 'command-line' });
    expect(put(other, middle)).toEqual({
      type: 'account.parent_changed',
      account: 'other',
      parent: 'middle',
      actor: 'command-line',
    });
    expect(put(leaf, middle)).toBeNull();
    expect(put(leaf, null)).toMatchObject({ parent: null });
    expect(put(other, null)).toBeNull();
    expect(() => put(top, leaf)).toThrow('itself or below it');
    expect(() => put(top, top)).toThrow('itself or below it');
    expect(() => put(other, leaf)).toThrow('at most 3 levels');
    expect(() => put(top, other)).toThrow('at most 3 levels');
    expect(put(middle, other)).toMatchObject({ parent: 'other' });
  });

  test('when it is topped up, then by a safe amount with a reference', () => {
    const add = (amount: number, reference: string, account = active) =>
      topUp(account, { amount, reference, actor: 'command-line' });
    expect(add(25, ' invoice 7 ')).toEqual({
      type: 'account.topped_up',
      account: 'Account1',
      amount_nanousd: 25,
      reference: 'invoice 7',
      actor: 'command-line',
    });
    for (const amount of [0, -1, 1.5, NaN]) expect(() => add(amount, 'a')).toThrow('more than 0');
    expect(() => add(1, ' ')).toThrow('reference');
    expect(() => add(1, 'a', { ...active, toppedUp: Number.MAX_SAFE_INTEGER })).toThrow('together');
  });

  test('that is suspended, when it is reinstated, then it is, and a second time nothing happens', () => {
    expect(reinstateAccount(suspended, 'command-line')).toEqual({
      type: 'account.reinstated',
      account: 'Account1',
      actor: 'command-line',
    });
    expect(reinstateAccount(active, 'command-line')).toBeNull();
  });

  test('that is not there, when a command names it, then its sender is told', () => {
    expect(requireAccount(active, 'first')).toBe(active);
    expect(() => requireAccount(undefined, 'frist')).toThrow(
      new DecisionError('not_found', 'There is no account named "frist".'),
    );
  });
});

const secret = { digest: 'b'.repeat(64), last4: 'bbbb' };
const key: Key = {
  id: 'Key00001',
  account: 'Account1',
  name: 'laptop',
  workload: null,
  createdAt: after(-HOUR_MS),
  expiresAt: null,
  expiredAt: null,
  revokedAt: null,
  secret: { digest: 'a'.repeat(64), last4: 'aaaa' },
  previous: null,
  terms: null,
  termsPosition: 0,
  resetPosition: 0,
  version: 1,
};

/** What an error of a decision says by its code. */
const fails = (code: DecisionError['code'], message: string): object =>
  expect.objectContaining({ code, message: expect.stringContaining(message) }) as object;

describe('given no key, when one is created', () => {
  const create = (expiresAt: Date | null, existing = { active: 0, ever: 0 }) =>
    createKey(
      { id: 'Key00001', account: 'Account1', existing, name: 'laptop', secret, expiresAt, actor: 'test' },
      NOW,
    );

  test('then its digest is in the event and its secret is not asked for', () => {
    expect(create(null)).toEqual({
      type: 'key.created',
      account: 'Account1',
      key: 'Key00001',
      name: 'laptop',
      digest: secret.digest,
      last4: 'bbbb',
      actor: 'test',
    });
  });

  test.each([
    [
      'active keys',
      { active: KEYS_ACTIVE_MAX, ever: KEYS_ACTIVE_MAX },
      `already has ${KEYS_ACTIVE_MAX} active keys`,
    ],
    ['keys ever', { active: 0, ever: KEYS_EVER_MAX }, `already has ${KEYS_EVER_MAX} keys`],
  ])('for an account at its limit of %s, then it is rejected', (_, existing, message) => {
    expect(() => create(null, existing)).toThrow(fails('not_allowed', message));
    const oneLess = { active: Math.max(0, existing.active - 1), ever: existing.ever - 1 };
    expect(create(null, oneLess).type).toBe('key.created');
  });

  test('with an expiry to come, then it has it', () => {
    expect(create(after(1))).toMatchObject({ expires_at: '2026-01-01T00:00:00.001Z' });
  });

  test.each([0, -1, -HOUR_MS])('with an expiry that is over by %i ms, then it is refused', (ms) => {
    expect(() => create(after(ms))).toThrow(fails('invalid', 'is in the past'));
  });
});

describe('given a key, when it is rotated', () => {
  const rotate = (given: Key, overlapMs: number) =>
    rotateKey(given, { secret, overlapMs, actor: 'command-line' }, NOW);

  test('without overlap, then the old secret ends with the event', () => {
    expect(rotate(key, 0)).toEqual({
      type: 'key.rotated',
      account: 'Account1',
      key: 'Key00001',
      ...secret,
      actor: 'command-line',
    });
  });

  test.each([1, HOUR_MS, OVERLAP_MAX_MS])(
    'with an overlap of %i ms, then the old secret lives that long by the clock of the store',
    (ms) => {
      expect(rotate(key, ms)).toMatchObject({ overlap_ends_at: after(ms).toISOString() });
    },
  );

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

const actor = 'command-line';
const free: Plan = {
  name: 'free',
  terms: { models: ['small-*'], requests_per_minute: 10 },
  state: 'active',
  position: 7,
  version: 2,
};
const retired: Plan = { ...free, state: 'retired' };

describe('given a plan', () => {
  const define = (plan: Plan | undefined, terms: Plan['terms'], windows: 'keep' | 'reset' = 'keep') =>
    definePlan(plan, { name: 'free', terms, windows, actor });

  test('none, when it is defined, then it is', () => {
    expect(define(undefined, { routes: [] }, 'reset')).toEqual({
      type: 'plan.defined',
      plan: 'free',
      terms: { routes: [] },
      actor,
    });
  });

  test('when it is defined again with other terms, then it is changed to just these', () => {
    expect(define(free, { models: ['*'] })).toEqual({
      type: 'plan.changed',
      plan: 'free',
      terms: { models: ['*'] },
      windows: 'keep',
      actor,
    });
  });

  test('when it is defined with the terms that it has, in whatever order, then nothing happens', () => {
    expect(define(free, { requests_per_minute: 10, models: ['small-*'] })).toBeNull();
  });

  test('when its windows are to begin anew, then they do, with the same terms too', () => {
    expect(define(free, free.terms, 'reset')).toMatchObject({ type: 'plan.changed', windows: 'reset' });
  });

  test('when it is retired, then it is, for good, and a second time nothing happens', () => {
    expect(retirePlan(free, actor)).toEqual({ type: 'plan.retired', plan: 'free', actor });
    expect(retirePlan(retired, actor)).toBeNull();
    expect(() => define(retired, {})).toThrow(fails('not_allowed', 'is retired permanently'));
  });

  test('that is not there, when a command names it, then its sender is told', () => {
    expect(requirePlan(free, 'free')).toBe(free);
    expect(() => requirePlan(undefined, 'fre')).toThrow(fails('not_found', '"fre"'));
  });
});

describe('given an account, when its terms are changed', () => {
  const put = (account: Account, plan: Plan | null, windows: 'keep' | 'reset' = 'keep') =>
    setPlan(account, { plan, windows, actor });
  const onFree: Account = { ...active, plan: 'free' };

  test('to a plan, then it is on it; and with none, on none', () => {
    expect(put(active, free)).toEqual({
      type: 'account.plan_changed',
      account: 'Account1',
      plan: 'free',
      windows: 'keep',
      actor,
    });
    expect(put(onFree, null, 'reset')).toEqual({
      type: 'account.plan_changed',
      account: 'Account1',
      plan: null,
      windows: 'reset',
      actor,
    });
  });

  test('to where it is already, then nothing happens unless its windows are to begin anew', () => {
    expect([put(onFree, free), put(active, null)]).toEqual([null, null]);
    expect(put(onFree, free, 'reset')).toMatchObject({ plan: 'free', windows: 'reset' });
  });

  test('to a retired plan, then that would stop its calls, and is refused', () => {
    expect(() => put(active, retired)).toThrow(fails('not_allowed', 'is retired'));
  });

  test('to terms of its own, then it has these and no others', () => {
    const override = (account: Account, terms: Plan['terms'], windows: 'keep' | 'reset' = 'keep') =>
      overrideTerms(account, { terms, windows, actor });
    const event = { type: 'account.terms_overridden', account: 'Account1', windows: 'keep', actor };
    expect(override(active, { requests_per_minute: 5 })).toEqual({
      ...event,
      terms: { requests_per_minute: 5 },
    });
    expect(override(active, {})).toBeNull();
    const own = { ...active, override: { requests_per_minute: 5 } };
    expect(override(own, { requests_per_minute: 5 })).toBeNull();
    expect(override(own, { requests_per_minute: 5 }, 'reset')).toMatchObject({ windows: 'reset' });
    expect(override(own, {})).toEqual({ ...event, terms: {} });
  });
});

describe('given a key, when it is restricted', () => {
  const restrict = (given: Key, change: Partial<Restriction>) =>
    restrictKey(
      given,
      { set: {}, drop: [], clear: false, expiresAt: undefined, windows: 'keep', actor, ...change },
      NOW,
    );
  const narrow: Key = { ...key, terms: { models: ['small-*'], networks: ['10.0.0.0/8'] } };

  test('in a field, then the rest of its terms stays as it was', () => {
    const event = { type: 'key.restricted', account: 'Account1', key: 'Key00001', windows: 'keep', actor };
    expect(restrict(key, { set: { models: ['a'] } })).toEqual({ ...event, terms: { models: ['a'] } });
    expect(restrict(narrow, { set: { models: ['a'] } })).toEqual({
      ...event,
      terms: { models: ['a'], networks: ['10.0.0.0/8'] },
    });
  });

  test('no longer in a field, or in none, then those are gone and what is given anew is there', () => {
    expect(restrict(narrow, { drop: ['models'] })?.terms).toEqual({ networks: ['10.0.0.0/8'] });
    expect(restrict(narrow, { clear: true })?.terms).toEqual({});
    expect(restrict(narrow, { clear: true, set: { routes: ['/v1/models'] } })?.terms).toEqual({
      routes: ['/v1/models'],
    });
    expect(narrow.terms).toEqual({ models: ['small-*'], networks: ['10.0.0.0/8'] });
  });

  test('to what it has, then nothing happens unless its windows are to begin anew', () => {
    expect(restrict(narrow, { set: { models: ['small-*'] } })).toBeNull();
    expect(restrict(key, { clear: true, expiresAt: null })).toBeNull();
    expect(restrict(narrow, { windows: 'reset' })).toMatchObject({ terms: narrow.terms, windows: 'reset' });
  });

  test('in its expiry, then it ends then, or never', () => {
    expect(restrict(key, { expiresAt: after(1) })).toMatchObject({
      terms: {},
      expires_at: after(1).toISOString(),
    });
    expect(restrict({ ...key, expiresAt: after(1) }, { expiresAt: null })).toMatchObject({
      expires_at: null,
    });
    expect(restrict({ ...key, expiresAt: after(1) }, { expiresAt: after(1) })).toBeNull();
    expect(() => restrict(key, { expiresAt: NOW })).toThrow(fails('invalid', 'is in the past'));
  });

  test.each<[string, Key]>([
    ['revoked', { ...key, revokedAt: after(-1) }],
    ['expired', { ...key, expiresAt: NOW }],
  ])('though it is %s, then nothing could bring it back, and it is refused', (state, given) => {
    expect(() => restrict(given, { expiresAt: after(HOUR_MS) })).toThrow(fails('not_allowed', `is ${state}`));
  });
});

import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ControlEvent, EventOf } from '#db/events/events.ts';
import {
  isAccountEvent,
  isKeyEvent,
  isMemberEvent,
  isModelEvent,
  isPlanEvent,
  isUpstreamEvent,
  type KeyEvent,
} from '#db/events/subjects.ts';
import { UpstreamTerms } from '#db/events/upstream-events.ts';
import { evolveWorkload } from '#db/fold/workload.ts';
import { type Account, accountTerms, applyPlanEvent, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key, keyState } from '#db/fold/key.ts';
import { evolveIdentityProvider, evolveSignIn } from '#db/fold/identity.ts';
import { evolveMember } from '#db/fold/member.ts';
import { evolveModel } from '#db/fold/model.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { evolvePrice } from '#db/fold/price.ts';
import { evolveRegistration } from '#db/fold/registration.ts';
import { evolveSigning, SIGNING_FIRST } from '#db/fold/signing.ts';
import { evolveUpstream } from '#db/fold/upstream.ts';
import { anyControlEvent, anyEvent } from '../../support/log/arbitrary-event.ts';
import { storedAs, storedEvents } from '../../support/log/stored.ts';

const ACTOR = 'command-line';
const at = (minutes: number): Date => new Date(Date.UTC(2026, 0, 1, 0, minutes));
const digest = (letter: string): string => letter.repeat(64);

const registered: ControlEvent = {
  type: 'account.registered',
  account: 'Account1',
  name: 'first',
  actor: ACTOR,
};
const suspended: ControlEvent = { type: 'account.suspended', account: 'Account1', actor: ACTOR };
const reinstated: ControlEvent = { type: 'account.reinstated', account: 'Account1', actor: ACTOR };
const created: EventOf<'key.created'> = {
  type: 'key.created',
  account: 'Account1',
  key: 'Key00001',
  name: 'laptop',
  digest: digest('a'),
  last4: 'aaaa',
  actor: ACTOR,
};
const rotated: EventOf<'key.rotated'> = {
  type: 'key.rotated',
  account: 'Account1',
  key: 'Key00001',
  digest: digest('b'),
  last4: 'bbbb',
  actor: ACTOR,
};
const revoked: ControlEvent = { type: 'key.revoked', account: 'Account1', key: 'Key00001', actor: ACTOR };

const defined: EventOf<'plan.defined'> = {
  type: 'plan.defined',
  plan: 'free',
  terms: { models: ['small-*'], requests_per_minute: 9 },
  actor: ACTOR,
};
const changed = (windows: 'keep' | 'reset'): ControlEvent => ({
  type: 'plan.changed',
  plan: 'free',
  terms: { models: ['*'] },
  windows,
  actor: ACTOR,
});
const gone: ControlEvent = { type: 'plan.retired', plan: 'free', actor: ACTOR };
const onFree = (windows: 'keep' | 'reset' = 'keep'): EventOf<'account.plan_changed'> => ({
  type: 'account.plan_changed',
  account: 'Account1',
  plan: 'free',
  windows,
  actor: ACTOR,
});
const overridden = (
  terms: EventOf<'account.terms_overridden'>['terms'],
  windows: 'keep' | 'reset' = 'keep',
): ControlEvent => ({
  type: 'account.terms_overridden',
  account: 'Account1',
  terms,
  windows,
  actor: ACTOR,
});
const expired: EventOf<'key.expired'> = {
  type: 'key.expired',
  account: 'Account1',
  key: 'Key00001',
  actor: 'worker',
};
const restricted: EventOf<'key.restricted'> = {
  type: 'key.restricted',
  account: 'Account1',
  key: 'Key00001',
  terms: { models: ['a'] },
  windows: 'keep',
  actor: ACTOR,
};

/** The state of a subject after its events at the positions 1, 2, …, a minute apart. */
const accountAfter = (...events: ControlEvent[]): Account | undefined =>
  storedEvents(events).reduce<Account | undefined>((account, { event, ...place }) => {
    if (isAccountEvent(event)) return evolveAccount(account, { event, ...place });
    return account && isPlanEvent(event) ? applyPlanEvent(account, { event, ...place }) : account;
  }, undefined);
const planAfter = (...events: ControlEvent[]): Plan | undefined =>
  storedEvents(events).reduce<Plan | undefined>(
    (plan, { event, ...place }) => (isPlanEvent(event) ? evolvePlan(plan, { event, ...place }) : plan),
    undefined,
  );
const keyAfter = (...events: ControlEvent[]): Key | undefined =>
  storedEvents(events).reduce<Key | undefined>(
    (key, { event, ...place }) => (isKeyEvent(event) ? evolveKey(key, { event, ...place }) : key),
    undefined,
  );

describe('an account', () => {
  test('has the state of its last event, one version higher each', () => {
    expect(accountAfter(registered)).toEqual({
      id: 'Account1',
      name: 'first',
      state: 'active',
      plan: null,
      override: null,
      termsPosition: 0,
      parent: null,
      toppedUp: 0,
      resetPosition: 0,
      version: 1,
    });
    expect(accountAfter(registered, suspended)).toMatchObject({ state: 'suspended', version: 2 });
    expect(accountAfter(registered, suspended, reinstated)).toMatchObject({ state: 'active', version: 3 });
  });

  test("is not changed by its keys, and doesn't begin with a later event", () => {
    expect(accountAfter(registered, created, rotated, revoked)).toEqual(accountAfter(registered));
    expect(accountAfter(suspended, reinstated, onFree())).toBeUndefined();
  });

  test('has its latest plan and override, with their positions in the log', () => {
    expect(accountAfter(registered, onFree())).toMatchObject({
      plan: 'free',
      override: null,
      termsPosition: 2,
      resetPosition: 0,
      version: 2,
    });
    expect(accountAfter(registered, onFree(), overridden({ models: ['a'] }), suspended)).toMatchObject({
      plan: 'free',
      override: { models: ['a'] },
      termsPosition: 3,
      version: 4,
    });
    expect(accountAfter(registered, overridden({ models: ['a'] }), overridden({}))).toMatchObject({
      override: null,
      termsPosition: 3,
    });
    expect(accountAfter(registered, onFree(), { ...onFree(), plan: null })).toMatchObject({
      plan: null,
      termsPosition: 3,
    });
  });

  test('has its windows reset by itself or by its current plan, and keeps the reset on another plan', () => {
    expect(accountAfter(registered, onFree('reset'))?.resetPosition).toBe(2);
    expect(
      accountAfter(registered, onFree('reset'), overridden({}, 'reset'), suspended, onFree())?.resetPosition,
    ).toBe(3);
    expect(accountAfter(registered, onFree(), changed('reset'))).toMatchObject({
      resetPosition: 3,
      termsPosition: 2,
      version: 2,
    });
    expect(accountAfter(registered, onFree(), changed('keep'))?.resetPosition).toBe(0);
    expect(accountAfter(registered, changed('reset'), onFree())?.resetPosition).toBe(0);
    expect(
      accountAfter(registered, onFree(), changed('reset'), { ...onFree(), plan: 'other' })?.resetPosition,
    ).toBe(3);
  });

  test('never moves the reset of its windows to an earlier position', () => {
    const accountOrPlan = anyControlEvent
      .filter(({ type }) => type.startsWith('plan.') || type.startsWith('account.'))
      .map((event): ControlEvent => ('account' in event ? { ...event, account: 'Account1' } : event))
      .map((event): ControlEvent =>
        'plan' in event && event.plan != null
          ? { ...event, plan: event.plan.length % 2 ? 'free' : 'paid' }
          : event,
      )
      .filter(({ type }) => type !== 'account.registered');
    fc.assert(
      fc.property(fc.array(accountOrPlan, { maxLength: 20 }), (events) => {
        const resets = events.map(
          (_, count) => accountAfter(registered, ...events.slice(0, count))?.resetPosition ?? -1,
        );
        expect(resets).toEqual(resets.toSorted((one, other) => one - other));
      }),
    );
  });

  test('has the terms of its plan, overridden field by field by its own', () => {
    const plan = planAfter(defined) as Plan;
    const own = accountAfter(
      registered,
      onFree(),
      overridden({ requests_per_minute: 1, routes: [] }),
    ) as Account;
    expect(accountTerms(own, plan)).toEqual({ models: ['small-*'], requests_per_minute: 1, routes: [] });
    expect(accountTerms(accountAfter(registered) as Account, undefined)).toEqual({});
    expect(accountTerms(own, undefined)).toEqual({ requests_per_minute: 1, routes: [] });
  });
});

describe('a plan', () => {
  test('has its latest terms', () => {
    expect(planAfter(defined)).toEqual({
      name: 'free',
      terms: defined.terms,
      state: 'active',
      position: 1,
      version: 1,
    });
    expect(planAfter(defined, changed('keep'))).toEqual({
      name: 'free',
      terms: { models: ['*'] },
      state: 'active',
      position: 2,
      version: 2,
    });
  });

  test('that is retired keeps its terms', () => {
    expect(planAfter(defined, gone)).toEqual({
      name: 'free',
      terms: defined.terms,
      state: 'retired',
      position: 2,
      version: 2,
    });
  });

  test("is not changed by its accounts, and doesn't begin with a later event", () => {
    expect(planAfter(defined, registered, onFree('reset'), suspended)).toEqual(planAfter(defined));
    expect(planAfter(changed('keep'), gone)).toBeUndefined();
  });
});

describe('a key', () => {
  test('begins with its first secret and no other', () => {
    expect(keyAfter(created)).toEqual({
      id: 'Key00001',
      account: 'Account1',
      name: 'laptop',
      createdAt: at(0),
      expiresAt: null,
      expiredAt: null,
      revokedAt: null,
      secret: { digest: digest('a'), last4: 'aaaa' },
      workload: null,
      previous: null,
      terms: null,
      termsPosition: 0,
      resetPosition: 0,
      version: 1,
    });
    expect(keyAfter({ ...created, expires_at: at(9).toISOString() })?.expiresAt).toEqual(at(9));
  });

  test('keeps its old secret beside the new one only while an overlap lasts', () => {
    expect(keyAfter(created, rotated)).toMatchObject({
      secret: { digest: digest('b'), last4: 'bbbb' },
      previous: null,
      version: 2,
    });
    const overlapping = keyAfter(created, { ...rotated, overlap_ends_at: at(30).toISOString() });
    expect(overlapping?.previous).toEqual({ digest: digest('a'), last4: 'aaaa', endsAt: at(30) });
  });

  test('forgets the secret before the last one when it is rotated again', () => {
    const twice = keyAfter(
      created,
      { ...rotated, overlap_ends_at: at(30).toISOString() },
      { ...rotated, digest: digest('c'), last4: 'cccc', overlap_ends_at: at(40).toISOString() },
    );
    expect(twice).toMatchObject({
      secret: { digest: digest('c') },
      previous: { digest: digest('b'), endsAt: at(40) },
      version: 3,
    });
    expect(JSON.stringify(twice)).not.toContain(digest('a'));
  });

  test('that is revoked loses its overlap with it', () => {
    const ended = keyAfter(created, { ...rotated, overlap_ends_at: at(30).toISOString() }, revoked);
    expect(ended).toMatchObject({ revokedAt: at(2), previous: null, version: 3 });
  });

  test('has its latest terms, and none when those are empty', () => {
    expect(keyAfter(created, restricted)).toMatchObject({
      terms: { models: ['a'] },
      termsPosition: 2,
      resetPosition: 0,
      expiresAt: null,
      version: 2,
    });
    expect(keyAfter(created, restricted, { ...restricted, terms: {}, windows: 'reset' })).toMatchObject({
      terms: null,
      termsPosition: 3,
      resetPosition: 3,
    });
    expect(keyAfter(created, { ...restricted, windows: 'reset' }, restricted, rotated)).toMatchObject({
      terms: { models: ['a'] },
      termsPosition: 3,
      resetPosition: 2,
    });
  });

  test('has another expiry exactly where its restriction names one', () => {
    const ending = { ...created, expires_at: at(9).toISOString() };
    expect(keyAfter(ending, restricted)?.expiresAt).toEqual(at(9));
    expect(keyAfter(ending, { ...restricted, expires_at: null })?.expiresAt).toBeNull();
    expect(keyAfter(ending, { ...restricted, expires_at: at(5).toISOString() })?.expiresAt).toEqual(at(5));
  });

  test('records its expiry once, until another expiry is set', () => {
    const ending = { ...created, expires_at: at(1).toISOString() };
    expect(keyAfter(ending, expired, restricted)).toMatchObject({
      expiresAt: at(1),
      expiredAt: at(1),
      version: 3,
    });
    expect(keyAfter(ending, expired, { ...restricted, expires_at: at(9).toISOString() })).toMatchObject({
      expiresAt: at(9),
      expiredAt: null,
    });
  });

  test("is not changed by its account, and doesn't begin with a later event", () => {
    expect(keyAfter(created, suspended, reinstated, registered)).toEqual(keyAfter(created));
    expect(keyAfter(rotated, restricted, expired, revoked)).toBeUndefined();
  });

  test.each<[string, ControlEvent[], number, string]>([
    ['new', [created], 5, 'active'],
    ['a moment before its expiry', [{ ...created, expires_at: at(10).toISOString() }], 9.999, 'active'],
    ['at its expiry', [{ ...created, expires_at: at(10).toISOString() }], 10, 'expired'],
    ['rotated without overlap', [created, rotated], 5, 'active'],
    [
      'rotated with overlap',
      [created, { ...rotated, overlap_ends_at: at(30).toISOString() }],
      29,
      'rotating',
    ],
    [
      'at the end of its overlap',
      [created, { ...rotated, overlap_ends_at: at(30).toISOString() }],
      30,
      'active',
    ],
    ['revoked', [created, revoked], 5, 'revoked'],
    ['revoked and past its expiry', [{ ...created, expires_at: at(4).toISOString() }, revoked], 5, 'revoked'],
    [
      'expired within its overlap',
      [
        { ...created, expires_at: at(4).toISOString() },
        { ...rotated, overlap_ends_at: at(30).toISOString() },
      ],
      5,
      'expired',
    ],
  ])('%s, is in the state that says so', (_, events, minute, state) => {
    expect(keyState(keyAfter(...events) as Key, at(minute))).toBe(state);
  });
});

describe('folds', () => {
  test('change neither their state nor their event', () => {
    const controls = fc.array(
      anyEvent.filter((event): event is ControlEvent => 'actor' in event),
      { maxLength: 8 },
    );
    fc.assert(
      fc.property(controls, (events) => {
        const deepFrozen = <T>(value: T): T =>
          typeof value === 'object' && value !== null
            ? (Object.values(value).forEach(deepFrozen), Object.freeze(value))
            : value;
        let account: Account | undefined;
        let key: Key | undefined;
        let plan: Plan | undefined;
        for (const { event, ...place } of storedEvents(events).map(deepFrozen)) {
          if (isAccountEvent(event)) account = deepFrozen(evolveAccount(account, { event, ...place }));
          if (isKeyEvent(event)) key = deepFrozen(evolveKey(key, { event, ...place }));
          if (isPlanEvent(event)) {
            plan = deepFrozen(evolvePlan(plan, { event, ...place }));
            if (account) account = deepFrozen(applyPlanEvent(account, { event, ...place }));
          }
        }
      }),
    );
  });

  // A count of the events that a fold knows falls behind its stream at the first one that it doesn't, and
  // every later change of that subject is a conflict.
  test('take the version from the stored event, even if its type changes no field', () => {
    const before = storedAs(created, 1);
    const unknown = storedAs({ ...revoked, type: 'key.tagged' } as unknown as KeyEvent, 2);
    const key = evolveKey(evolveKey(undefined, before), unknown);
    expect(key).toEqual({ ...evolveKey(undefined, before), version: 2 });
    expect(evolveKey(key, storedAs(rotated, 3))?.version).toBe(3);
  });

  test('have the version of the newest event of the stream, whatever its type', () => {
    fc.assert(
      fc.property(anyControlEvent, fc.integer({ min: 2, max: 1e9 }), (event, version) => {
        const subject = subjectAfter(event, version);
        if (subject !== null) expect(subject).toMatchObject({ version });
      }),
    );
  });
});

/** The subject of an event after its first event (version 1) and this one; null if it has no fold. */
function subjectAfter(event: ControlEvent, version: number): object | undefined | null {
  const place = { at: at(1), position: 2, version };
  if (isAccountEvent(event)) return evolveAccount(accountAfter(registered), { event, ...place });
  if (isKeyEvent(event)) return evolveKey(keyAfter(created), { event, ...place });
  if (isPlanEvent(event)) return evolvePlan(planAfter(defined), { event, ...place });
  if (isUpstreamEvent(event)) {
    const terms = UpstreamTerms.parse({ provider: 'openai', base_url: 'http://localhost' });
    const begin = storedAs({ type: 'upstream.added' as const, upstream: 'one', terms, actor: ACTOR }, 1);
    return evolveUpstream(evolveUpstream(undefined, begin), { event, ...place });
  }
  if (isModelEvent(event)) {
    const terms = { alias_of: 'other' };
    const begin = storedAs({ type: 'model.defined' as const, model: 'm', terms, actor: ACTOR }, 1);
    return evolveModel(evolveModel(undefined, begin), { event, ...place });
  }
  if (isMemberEvent(event)) {
    const about = { member: 'Member01', account: 'Account1', role: 'member' as const };
    const begin = storedAs({ type: 'member.added' as const, ...about, actor: ACTOR }, 1);
    return evolveMember(evolveMember(undefined, begin), { event, ...place });
  }
  if (event.type === 'model.priced') return evolvePrice({ event, ...place });
  if (event.type === 'registration.changed') return evolveRegistration({ event, ...place });
  if (event.type === 'sign_in.changed') return evolveSignIn({ event, ...place });
  if (event.type === 'identity_provider.configured' || event.type === 'identity_provider.removed')
    return evolveIdentityProvider(
      { name: event.provider, terms: {} as never, state: 'active', version: 1 },
      { event, ...place },
    );
  if (event.type === 'workload.configured' || event.type === 'workload.removed')
    return evolveWorkload(
      { name: event.workload, account: '', key: '', terms: {} as never, state: 'active', version: 1 },
      { event, ...place },
    );
  if (event.type === 'log.signer_changed' || event.type === 'log.epoch_started')
    return evolveSigning(SIGNING_FIRST, { event, ...place });
  return null;
}

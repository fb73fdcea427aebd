import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ControlEvent, EventOf } from '#db/events/events.ts';
import { type Account, accountTerms, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key, keyState } from '#db/fold/key.ts';
import { evolvePlan, type Plan } from '#db/fold/plan.ts';
import { evolveRequest, type Request, type RequestLifeEvent, RequestOrderError } from '#db/fold/request.ts';
import { anyControlEvent, anyEvent } from '../../support/log/arbitrary-event.ts';

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

/** The account after events at the positions 1, 2, … */
const accountAfter = (...events: ControlEvent[]): Account | undefined =>
  events.reduce<Account | undefined>(
    (account, event, index) => evolveAccount(account, event, index + 1),
    undefined,
  );
const planAfter = (...events: ControlEvent[]): Plan | undefined =>
  events.reduce<Plan | undefined>((plan, event, index) => evolvePlan(plan, event, index + 1), undefined);
/** The key after events that are a minute apart, the first at minute 0 and position 1. */
const keyAfter = (...events: ControlEvent[]): Key | undefined =>
  events.reduce<Key | undefined>(
    (key, event, minute) => evolveKey(key, event, at(minute), minute + 1),
    undefined,
  );

describe('an account', () => {
  test('is what its last event made of it, one version further each', () => {
    expect(accountAfter(registered)).toEqual({
      id: 'Account1',
      name: 'first',
      state: 'active',
      plan: null,
      override: null,
      termsPosition: 0,
      resetPosition: 0,
      version: 1,
    });
    expect(accountAfter(registered, suspended)).toMatchObject({ state: 'suspended', version: 2 });
    expect(accountAfter(registered, suspended, reinstated)).toMatchObject({ state: 'active', version: 3 });
  });

  test('is not changed by its keys, and does not begin in the middle', () => {
    expect(accountAfter(registered, created, rotated, revoked)).toEqual(accountAfter(registered));
    expect(accountAfter(suspended, reinstated, onFree())).toBeUndefined();
  });

  test('has the plan and the terms of its own that it was last given, and knows from where in the log', () => {
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

  test('has its windows begun anew by itself, or by its plan while it is on it, and keeps that on another plan', () => {
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

  test('never has its windows begun at an earlier place than before, whatever happens', () => {
    const accountOrPlan = anyControlEvent
      .filter(({ type }) => type.startsWith('plan.') || type.startsWith('account.'))
      .map((event): ControlEvent => ('account' in event ? { ...event, account: 'Account1' } : event))
      .map((event): ControlEvent =>
        'plan' in event && event.plan !== null
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

  test('may use what its plan says, field by field what it was given itself', () => {
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
  test('has the terms that it was last given', () => {
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

  test('is not changed by its accounts, and does not begin in the middle', () => {
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

  test('has the terms that it was last given, and none when those are empty', () => {
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

  test('has its expiry put down once, until another end is given', () => {
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

  test('is not changed by its account, and does not begin in the middle', () => {
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
  test('change neither the state nor the event that they are given', () => {
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
        for (const event of events.map(deepFrozen)) {
          account = deepFrozen(evolveAccount(account, event, 1));
          key = deepFrozen(evolveKey(key, event, at(0), 1));
          plan = deepFrozen(evolvePlan(plan, event, 1));
        }
      }),
    );
  });
});

describe('a request', () => {
  const ids = {
    request: '01900000-0000-7000-8000-000000000001',
    account: 'Account1',
    key: 'Key00001',
    model: 'm',
  };
  const accepted: RequestLifeEvent = {
    type: 'request.accepted',
    ...ids,
    sse: true,
    body_bytes: 10,
    hold_tokens: 7,
  };
  const settled: RequestLifeEvent = {
    type: 'request.settled',
    ...ids,
    end_reason: 'completed',
    usage_source: 'provider',
    status: 200,
    input_tokens: 3,
    cached_tokens: 1,
    output_tokens: 2,
    reasoning_tokens: 0,
    attempts: 1,
    duration_ms: 9,
  };
  const extended: RequestLifeEvent = {
    type: 'request.extended',
    ...ids,
    hold_tokens: 30,
    hold_cost_microusd: 500,
  };
  const abandoned: RequestLifeEvent = {
    type: 'request.abandoned',
    ...ids,
    end_reason: 'abandoned',
    usage_source: 'estimated',
    hold_tokens: 7,
  };
  const after = (...events: RequestLifeEvent[]): Request | undefined =>
    events.reduce<Request | undefined>(evolveRequest, undefined);

  test('is open until its one ending, which says what it used', () => {
    expect(after(accepted)).toEqual({
      id: ids.request,
      account: 'Account1',
      key: 'Key00001',
      model: 'm',
      holdTokens: 7,
      holdCostMicrousd: null,
      end: null,
    });
    expect(after(accepted, settled)?.end).toEqual({
      reason: 'completed',
      usageSource: 'provider',
      inputTokens: 3,
      outputTokens: 2,
    });
    expect(after(accepted, abandoned)).toMatchObject({
      holdTokens: 7,
      end: { reason: 'abandoned', usageSource: 'estimated' },
    });
  });

  test('holds what it was last given, until its end and in it', () => {
    expect(after({ ...accepted, hold_cost_microusd: 100 })).toMatchObject({
      holdTokens: 7,
      holdCostMicrousd: 100,
    });
    expect(after(accepted, extended)).toMatchObject({ holdTokens: 30, holdCostMicrousd: 500, end: null });
    const more = { ...extended, hold_tokens: 31, hold_cost_microusd: 510 };
    expect(after(accepted, extended, more)).toMatchObject({
      holdTokens: 31,
      holdCostMicrousd: 510,
      end: null,
    });
    expect(after(accepted, extended, settled)).toMatchObject({
      holdTokens: 30,
      holdCostMicrousd: 500,
      end: { reason: 'completed' },
    });
  });

  test.each<[string, RequestLifeEvent[], string]>([
    ['accepted twice', [accepted, accepted], 'was accepted twice'],
    ['accepted again after its end', [accepted, settled, accepted], 'was accepted twice'],
    ['settled without being accepted', [settled], 'ended without being accepted'],
    ['abandoned without being accepted', [abandoned], 'ended without being accepted'],
    ['extended without being accepted', [extended], 'was extended without being accepted'],
    ['extended after it was settled', [accepted, settled, extended], 'was extended after its end'],
    [
      'extended after it was abandoned',
      [accepted, extended, abandoned, extended],
      'was extended after its end',
    ],
    ['accepted again after it was extended', [accepted, extended, accepted], 'was accepted twice'],
    ['settled twice', [accepted, settled, settled], 'ended twice'],
    ['abandoned after it was settled', [accepted, settled, abandoned], 'ended twice'],
    ['settled after it was abandoned', [accepted, abandoned, settled], 'ended twice'],
  ])('%s breaks the promise of one ending and is told by its id', (_, events, message) => {
    expect(() => after(...events)).toThrow(new RequestOrderError(`request ${ids.request} ${message}`));
  });
});

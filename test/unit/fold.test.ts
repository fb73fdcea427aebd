import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ControlEvent, EventOf } from '#db/events.ts';
import { type Account, evolveAccount } from '#db/fold/account.ts';
import { evolveKey, type Key, keyState } from '#db/fold/key.ts';
import { evolveRequest, type Request, type RequestLifeEvent, RequestOrderError } from '#db/fold/request.ts';
import { anyEvent } from '../support/event-made.ts';

const ACTOR = 'command-line';
const at = (minutes: number): Date => new Date(Date.UTC(2026, 0, 1, 0, minutes));
const digest = (letter: string): string => letter.repeat(64);

const registered: ControlEvent = { type: 'account.registered', account: 'Account1', name: 'first', actor: ACTOR };
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

const accountAfter = (...events: ControlEvent[]): Account | undefined => events.reduce<Account | undefined>(evolveAccount, undefined);
/** The key after events that are a minute apart, the first at minute 0. */
const keyAfter = (...events: ControlEvent[]): Key | undefined =>
  events.reduce<Key | undefined>((key, event, minute) => evolveKey(key, event, at(minute)), undefined);

describe('an account', () => {
  test('is what its last event made of it, one version further each', () => {
    expect(accountAfter(registered)).toEqual({ id: 'Account1', name: 'first', state: 'active', version: 1 });
    expect(accountAfter(registered, suspended)).toMatchObject({ state: 'suspended', version: 2 });
    expect(accountAfter(registered, suspended, reinstated)).toMatchObject({ state: 'active', version: 3 });
  });

  test('is not changed by its keys, and does not begin in the middle', () => {
    expect(accountAfter(registered, created, rotated, revoked)).toEqual(accountAfter(registered));
    expect(accountAfter(suspended, reinstated)).toBeUndefined();
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
      revokedAt: null,
      secret: { digest: digest('a'), last4: 'aaaa' },
      previous: null,
      version: 1,
    });
    expect(keyAfter({ ...created, expires_at: at(9).toISOString() })?.expiresAt).toEqual(at(9));
  });

  test('keeps its old secret beside the new one only while an overlap lasts', () => {
    expect(keyAfter(created, rotated)).toMatchObject({ secret: { digest: digest('b'), last4: 'bbbb' }, previous: null, version: 2 });
    const overlapping = keyAfter(created, { ...rotated, overlap_ends_at: at(30).toISOString() });
    expect(overlapping?.previous).toEqual({ digest: digest('a'), last4: 'aaaa', endsAt: at(30) });
  });

  test('forgets the secret before the last one when it is rotated again', () => {
    const twice = keyAfter(
      created,
      { ...rotated, overlap_ends_at: at(30).toISOString() },
      { ...rotated, digest: digest('c'), last4: 'cccc', overlap_ends_at: at(40).toISOString() },
    );
    expect(twice).toMatchObject({ secret: { digest: digest('c') }, previous: { digest: digest('b'), endsAt: at(40) }, version: 3 });
    expect(JSON.stringify(twice)).not.toContain(digest('a'));
  });

  test('that is revoked loses its overlap with it', () => {
    const ended = keyAfter(created, { ...rotated, overlap_ends_at: at(30).toISOString() }, revoked);
    expect(ended).toMatchObject({ revokedAt: at(2), previous: null, version: 3 });
  });

  test('is not changed by its account, and does not begin in the middle', () => {
    expect(keyAfter(created, suspended, reinstated, registered)).toEqual(keyAfter(created));
    expect(keyAfter(rotated, revoked)).toBeUndefined();
  });

  test.each<[string, ControlEvent[], number, string]>([
    ['new', [created], 5, 'active'],
    ['a moment before its expiry', [{ ...created, expires_at: at(10).toISOString() }], 9.999, 'active'],
    ['at its expiry', [{ ...created, expires_at: at(10).toISOString() }], 10, 'expired'],
    ['rotated without overlap', [created, rotated], 5, 'active'],
    ['rotated with overlap', [created, { ...rotated, overlap_ends_at: at(30).toISOString() }], 29, 'rotating'],
    ['at the end of its overlap', [created, { ...rotated, overlap_ends_at: at(30).toISOString() }], 30, 'active'],
    ['revoked', [created, revoked], 5, 'revoked'],
    ['revoked and past its expiry', [{ ...created, expires_at: at(4).toISOString() }, revoked], 5, 'revoked'],
    ['expired within its overlap', [{ ...created, expires_at: at(4).toISOString() }, { ...rotated, overlap_ends_at: at(30).toISOString() }], 5, 'expired'],
  ])('%s, is in the state that says so', (_, events, minute, state) => {
    expect(keyState(keyAfter(...events) as Key, at(minute))).toBe(state);
  });
});

describe('folds', () => {
  test('change neither the state nor the event that they are given', () => {
    const controls = fc.array(anyEvent.filter((event): event is ControlEvent => 'actor' in event), { maxLength: 8 });
    fc.assert(
      fc.property(controls, (events) => {
        const deepFrozen = <T>(value: T): T => (typeof value === 'object' && value !== null ? (Object.values(value).forEach(deepFrozen), Object.freeze(value)) : value);
        let account: Account | undefined;
        let key: Key | undefined;
        for (const event of events.map(deepFrozen)) {
          account = deepFrozen(evolveAccount(account, event));
          key = deepFrozen(evolveKey(key, event, at(0)));
        }
      }),
    );
  });
});

describe('a request', () => {
  const ids = { request: '01900000-0000-7000-8000-000000000001', account: 'Account1', key: 'Key00001', model: 'm' };
  const accepted: RequestLifeEvent = { type: 'request.accepted', ...ids, sse: true, body_bytes: 10, hold_tokens: 7 };
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
  const extended: RequestLifeEvent = { type: 'request.extended', ...ids, hold_tokens: 30, hold_cost_microusd: 500 };
  const abandoned: RequestLifeEvent = { type: 'request.abandoned', ...ids, end_reason: 'abandoned', usage_source: 'estimated', hold_tokens: 7 };
  const after = (...events: RequestLifeEvent[]): Request | undefined => events.reduce<Request | undefined>(evolveRequest, undefined);

  test('is open until its one ending, which says what it used', () => {
    expect(after(accepted)).toEqual({ id: ids.request, account: 'Account1', key: 'Key00001', model: 'm', holdTokens: 7, holdCostMicrousd: null, end: null });
    expect(after(accepted, settled)?.end).toEqual({ reason: 'completed', usageSource: 'provider', inputTokens: 3, outputTokens: 2 });
    expect(after(accepted, abandoned)).toMatchObject({ holdTokens: 7, end: { reason: 'abandoned', usageSource: 'estimated' } });
  });

  test('holds what it was last given, until its end and in it', () => {
    expect(after({ ...accepted, hold_cost_microusd: 100 })).toMatchObject({ holdTokens: 7, holdCostMicrousd: 100 });
    expect(after(accepted, extended)).toMatchObject({ holdTokens: 30, holdCostMicrousd: 500, end: null });
    const more = { ...extended, hold_tokens: 31, hold_cost_microusd: 510 };
    expect(after(accepted, extended, more)).toMatchObject({ holdTokens: 31, holdCostMicrousd: 510, end: null });
    expect(after(accepted, extended, settled)).toMatchObject({ holdTokens: 30, holdCostMicrousd: 500, end: { reason: 'completed' } });
  });

  test.each<[string, RequestLifeEvent[], string]>([
    ['accepted twice', [accepted, accepted], 'was accepted twice'],
    ['accepted again after its end', [accepted, settled, accepted], 'was accepted twice'],
    ['settled without being accepted', [settled], 'ended without being accepted'],
    ['abandoned without being accepted', [abandoned], 'ended without being accepted'],
    ['extended without being accepted', [extended], 'was extended without being accepted'],
    ['extended after it was settled', [accepted, settled, extended], 'was extended after its end'],
    ['extended after it was abandoned', [accepted, extended, abandoned, extended], 'was extended after its end'],
    ['accepted again after it was extended', [accepted, extended, accepted], 'was accepted twice'],
    ['settled twice', [accepted, settled, settled], 'ended twice'],
    ['abandoned after it was settled', [accepted, settled, abandoned], 'ended twice'],
    ['settled after it was abandoned', [accepted, abandoned, settled], 'ended twice'],
  ])('%s breaks the promise of one ending and is told by its id', (_, events, message) => {
    expect(() => after(...events)).toThrow(new RequestOrderError(`request ${ids.request} ${message}`));
  });
});

import { beforeEach, describe, expect, test } from 'vitest';
import { streamOf } from '#db/events/streams.ts';
import type { ControlEvent, EventOf, Placed } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import { ReadModel } from '#server/read-model/read-model.ts';

const actor = 'command-line';
const account = (id: string): ControlEvent[] => [
  { type: 'account.registered', account: id, name: id, actor },
  {
    type: 'key.created',
    account: id,
    key: `Key${id.slice(-5)}`,
    name: 'key',
    digest: 'a'.repeat(64),
    last4: 'aaaa',
    actor,
  },
];
const defined = (plan: string, terms: EventOf<'plan.defined'>['terms']): ControlEvent => ({
  type: 'plan.defined',
  plan,
  terms,
  actor,
});
const changed = (
  plan: string,
  terms: EventOf<'plan.defined'>['terms'],
  windows: 'keep' | 'reset' = 'keep',
): ControlEvent => ({ type: 'plan.changed', plan, terms, windows, actor });
const put = (id: string, plan: string | null, windows: 'keep' | 'reset' = 'keep'): ControlEvent => ({
  type: 'account.plan_changed',
  account: id,
  plan,
  windows,
  actor,
});
const overridden = (
  id: string,
  terms: EventOf<'plan.defined'>['terms'],
  windows: 'keep' | 'reset' = 'keep',
): ControlEvent => ({
  type: 'account.terms_overridden',
  account: id,
  terms,
  windows,
  actor,
});
const restricted = (
  id: string,
  terms: EventOf<'key.restricted'>['terms'],
  windows: 'keep' | 'reset' = 'keep',
): ControlEvent => ({
  type: 'key.restricted',
  account: id,
  key: `Key${id.slice(-5)}`,
  terms,
  windows,
  actor,
});

let model: ReadModel;
let position: number;
let versions: Map<string, number>;

function nextVersion(stream: string): number {
  const version = (versions.get(stream) ?? 0) + 1;
  versions.set(stream, version);
  return version;
}

/** Applies a page of events at the next positions. */
function happened(...events: ControlEvent[]): void {
  model.apply(
    events.map((event): Placed<ControlEvent> => ({
      shard: 0,
      position: ++position,
      at: new Date(0),
      instance: 1,
      stream: streamOf(event),
      version: nextVersion(streamOf(event)),
      event,
    })),
  );
}

const keyOf = (id: string): Key => model.key(`Key${id.slice(-5)}`) as Key;
const limits = (id: string) => model.limitsOf(keyOf(id));

beforeEach(() => {
  model = new ReadModel();
  position = 0;
  versions = new Map();
  happened(...account('Account1'), ...account('Account2')); // 1 to 4
});

describe("the limits of a key's calls", () => {
  test('are none where neither its account nor itself has any', () => {
    expect(limits('Account1')).toEqual([]);
    happened(
      defined('free', { models: ['a'] }),
      put('Account1', 'free'),
      restricted('Account1', { routes: [] }),
    );
    expect(limits('Account1')).toEqual([]);
  });

  test("are its account's and its own, each with the newest position that its terms come from", () => {
    happened(
      defined('free', { requests_per_minute: 10 }),
      put('Account1', 'free'),
      restricted('Account1', { concurrent_requests: 2, reply_tokens_max: 99 }),
    );
    expect(limits('Account1')).toEqual([
      {
        subject: 'account/Account1',
        limits: [{ meter: 'requests', window: 'minute', cap: 10, enforcement: 'soft', reset: 0 }],
        position: 6,
        replyTokensMax: null,
      },
      {
        subject: 'key/Keyount1',
        limits: [{ meter: 'concurrent', window: 'none', cap: 2, enforcement: 'soft', reset: 0 }],
        position: 7,
        replyTokensMax: 99,
      },
    ]);
    happened(changed('free', { requests_per_minute: 20 }));
    expect(limits('Account1')[0]).toMatchObject({ limits: [{ cap: 20 }], position: 8 });
  });

  test('are those of its end user, session and tags too, by the terms of the account and of the key', () => {
    const quota = { meter: 'tokens', enforcement: 'soft' } as const;
    happened(
      defined('free', {
        quotas: [
          { ...quota, window: 'month', limit: 1 },
          { ...quota, window: 'month', limit: 2, per: 'end_user' },
          { ...quota, window: 'lifetime', limit: 3, per: 'tag' },
        ],
      }),
      put('Account1', 'free'),
      restricted('Account1', { quotas: [{ ...quota, window: 'lifetime', limit: 4, per: 'session' }] }),
    );
    const of = (call: Parameters<typeof model.limitsOf>[1]) =>
      model
        .limitsOf(keyOf('Account1'), call)
        .map(({ subject, limits: [limit], position: at }) => [subject, limit?.cap, at]);
    expect(of(undefined)).toEqual([['account/Account1', 1, 6]]);
    expect(of({ end_user: 'U', session: 'S', tags: ['T', 'V', 'T'] })).toEqual([
      ['account/Account1', 1, 6],
      ['end_user/Account1/U', 2, 6],
      ['tag/Account1/T', 3, 6],
      ['tag/Account1/V', 3, 6],
      ['session/Account1/Keyount1/S', 4, 7],
    ]);
    const [, first] = model.limitsOf(keyOf('Account1'), { end_user: 'U' });
    const [, again] = model.limitsOf(keyOf('Account1'), { end_user: 'V' });
    expect(again?.limits).toBe(first?.limits);
  });

  test("are an account's own where it has them, on a plan and on none", () => {
    happened(
      defined('free', { requests_per_minute: 10, tokens_per_minute: 50 }),
      put('Account1', 'free'),
      overridden('Account1', { requests_per_minute: 1 }),
    );
    expect(limits('Account1')[0]?.limits.map(({ meter, cap }) => [meter, cap])).toEqual([
      ['requests', 1],
      ['tokens', 50],
    ]);
    happened(put('Account1', null));
    expect(limits('Account1')[0]?.limits.map(({ meter, cap }) => [meter, cap])).toEqual([['requests', 1]]);
    happened(overridden('Account1', {}));
    expect(limits('Account1')).toEqual([]);
  });

  test('count from where their windows were last begun anew, and no other change moves that', () => {
    const resets = (): (number | undefined)[] =>
      limits('Account1').map((subject) => subject.limits[0]?.reset);
    happened(
      defined('free', { requests_per_minute: 10 }),
      put('Account1', 'free', 'reset'),
      restricted('Account1', { requests_per_minute: 1 }),
    );
    expect(resets()).toEqual([6, 0]);
    happened(
      changed('free', { requests_per_minute: 11 }, 'reset'),
      restricted('Account1', { requests_per_minute: 2 }, 'reset'),
    );
    expect(resets()).toEqual([8, 9]);
    happened(
      defined('paid', { requests_per_minute: 99 }),
      changed('paid', { requests_per_minute: 100 }, 'reset'),
      put('Account1', 'paid'),
    );
    expect(resets()).toEqual([8, 9]);
    happened(overridden('Account1', { requests_per_minute: 5 }, 'reset'), changed('free', {}, 'reset'));
    expect(resets()).toEqual([13, 9]);
  });

  test('are the same object until their terms change, because the counters hang on it', () => {
    happened(
      defined('free', { requests_per_minute: 10 }),
      put('Account1', 'free'),
      put('Account2', 'free'),
      restricted('Account1', { requests_per_minute: 1 }),
    );
    const [ofAccount, ofKey] = limits('Account1');
    const [ofOther] = limits('Account2');
    happened(
      { type: 'account.suspended', account: 'Account1', actor },
      { type: 'account.reinstated', account: 'Account1', actor },
      {
        type: 'key.rotated',
        account: 'Account1',
        key: 'Keyount1',
        digest: 'b'.repeat(64),
        last4: 'bbbb',
        actor,
      },
      defined('paid', {}),
    );
    expect([limits('Account1')[0] === ofAccount, limits('Account1')[1] === ofKey]).toEqual([true, true]);
    happened(restricted('Account1', { requests_per_minute: 1 }));
    expect([limits('Account1')[0] === ofAccount, limits('Account1')[1] === ofKey]).toEqual([true, false]);
    happened(overridden('Account1', {}));
    expect([limits('Account1')[0] === ofAccount, limits('Account2')[0] === ofOther]).toEqual([false, true]);
    happened(changed('free', { requests_per_minute: 10 }));
    expect(limits('Account2')[0] === ofOther).toBe(false);
  });
});

describe('who listens to changes', () => {
  let told: string[][];
  beforeEach(() => {
    told = [];
    model.onChange((accounts) => told.push([...accounts].toSorted()));
  });

  test('is told once a page of the accounts whose calls it may concern', () => {
    happened(
      { type: 'account.suspended', account: 'Account1', actor },
      restricted('Account2', {}),
      put('Account2', null),
    );
    expect(told).toEqual([['Account1', 'Account2']]);
  });

  test('is told of all accounts of a plan, and of no others', () => {
    happened(defined('free', {}), ...account('Account3'), put('Account1', 'free'), put('Account3', 'free'));
    happened(changed('free', { models: [] }));
    happened({ type: 'plan.retired', plan: 'free', actor });
    expect(told).toEqual([
      ['Account1', 'Account3'],
      ['Account1', 'Account3'],
      ['Account1', 'Account3'],
    ]);
  });

  test('is not told of what concerns no call', () => {
    happened(...account('Account3'), defined('free', {}), changed('free', { models: ['a'] }));
    happened({
      type: 'model.priced',
      model: 'a',
      base: { input: 1, output: 1 },
      source: 'manual',
      actor,
    });
    expect(told).toEqual([]);
  });

  test('sees the state after the page', () => {
    let state: string | undefined;
    model.onChange(() => (state = model.account('Account1')?.state));
    happened({ type: 'account.suspended', account: 'Account1', actor });
    expect(state).toBe('suspended');
  });
});

test('a recorded expiry notifies no running call, so a missing worker makes no difference', () => {
  const told: string[] = [];
  model.onChange((accounts) => told.push(...accounts));
  happened({ type: 'key.expired', account: 'Account1', key: keyOf('Account1').id, actor: 'worker' });
  expect(told).toEqual([]);
  expect(keyOf('Account1')).toMatchObject({ version: 2, expiredAt: new Date(0) });
});

import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Enforcement, Limit, SubjectLimits } from '#db/limits/limits.ts';
import { SUBJECTS_MAX } from '#server/limits/bounds.ts';
import { AdmissionController } from '#server/limits/admission-controller.ts';
import { Reservation } from '#server/limits/reservation.ts';
import type { Outcome } from '#server/limits/waiting-call.ts';
import { SimStore } from '../../sim/store.ts';
import { runs } from '../../fuzz/property-runs.ts';

const PAUSE_MS = 5;
/** How long each decision takes, by the clock: as long as the slowest, so that no clock runs ahead. */
const DECISION_MS = 300;
const MINUTE_MS = 60_000;

/** Servers that share a store and answer one another at once. */
class Fleet {
  readonly store = new SimStore();
  readonly servers = [1, 2, 3].map(() => ({
    instance: this.store.register(),
    admission: new AdmissionController(),
  }));
  nowMs = Date.parse('2026-11-23T12:00:10Z');

  constructor() {
    this.store.onRecall = (allowance) => {
      for (const { admission } of this.servers) admission.leases.recall(allowance);
    };
  }

  decide(server: number, subjects: readonly SubjectLimits[], tokens: number): Outcome {
    const { admission } = this.servers[server % this.servers.length] as (typeof this.servers)[number];
    const amounts = { tokens, cost: 0 };
    const need = { minimum: amounts, wanted: amounts };
    const beganMs = this.nowMs;
    let outcome: Outcome | null = null;
    outcome = admission.admit(subjects, need, this.nowMs, (later) => (outcome = later));
    while (outcome === null) {
      this.exchange();
      this.nowMs += PAUSE_MS;
    }
    this.nowMs = beganMs + DECISION_MS;
    return outcome;
  }

  exchange(): void {
    for (const { instance, admission } of this.servers) {
      const request = admission.nextRequest(this.nowMs, 0);
      if (request) admission.applyResponse(this.store.exchange(instance, request, this.nowMs), this.nowMs);
    }
  }

  tick(ms: number): void {
    this.nowMs += ms;
    // A call that waits past the end of a window may count in either.
    if (MINUTE_MS - (this.nowMs % MINUTE_MS) < DECISION_MS) this.nowMs += DECISION_MS;
    for (const { admission } of this.servers) admission.tick(this.nowMs);
    this.exchange();
  }
}

const anyLimit: fc.Arbitrary<Omit<Limit, 'enforcement'>> = fc.oneof(
  fc.record({
    meter: fc.constantFrom('requests' as const, 'tokens' as const),
    window: fc.constantFrom('minute' as const, 'hour' as const),
    cap: fc.oneof(fc.nat(12), fc.nat(300)),
    reset: fc.constant(0),
  }),
  fc.record({
    meter: fc.constant('concurrent' as const),
    window: fc.constant('none' as const),
    cap: fc.nat(4),
    reset: fc.constant(0),
  }),
);
/** A call of one server that ends after so many calls of others, and uses more or less than it reserved. */
const anyCall = fc.record({
  server: fc.nat(2),
  tokens: fc.integer({ min: 1, max: 30 }),
  used: fc.integer({ min: 0, max: 40 }),
  others: fc.nat(3),
  // Longer than a limit is remembered as exhausted.
  afterMs: fc.constantFrom(25, 25, 25, 900, 20_000),
});
type AnyCall = typeof anyCall extends fc.Arbitrary<infer T> ? T : never;

const other: Limit = { meter: 'tokens', window: 'day', cap: 1_000_000, enforcement: 'soft', reset: 0 };

/** For each call whether it was rejected, or would have been. */
function rejected(calls: readonly AnyCall[], limit: Omit<Limit, 'enforcement'>, enforcement: Enforcement) {
  const fleet = new Fleet();
  const limits = [{ ...limit, enforcement }, other];
  const subjects = [{ subject: 'account/Account1', limits, position: 1, replyTokensMax: null }];
  const running: { hold: Reservation; used: number; endsAt: number }[] = [];
  return calls.map(({ server, tokens, used, others, afterMs }, index) => {
    for (const call of running)
      if (call.endsAt === index) call.hold.settle({ input_tokens: call.used, output_tokens: 0 });
    // What ended before is known to the store, as it is to a client that calls again.
    fleet.tick(afterMs);
    const outcome = fleet.decide(server, subjects, tokens);
    if (!(outcome instanceof Reservation)) return outcome.kind === 'short' && outcome.counter.meter;
    running.push({ hold: outcome, used, endsAt: index + 1 + others });
    return outcome.rejections[0]?.meter ?? false;
  });
}

test('an observed limit names exactly the calls that it rejects where it is enforced', () => {
  let count = 0;
  const tried = runs(100);
  fc.assert(
    fc.property(fc.array(anyCall, { minLength: 5, maxLength: 40, size: 'max' }), anyLimit, (calls, limit) => {
      const enforced = rejected(calls, limit, 'soft');
      expect(rejected(calls, limit, 'observe')).toEqual(enforced);
      count += enforced.filter(Boolean).length;
    }),
    tried,
  );
  expect(count).toBeGreaterThan(3 * tried.numRuns);
});

const observed = (
  limits: readonly Omit<Limit, 'enforcement'>[],
  subject = 'account/Account1',
): SubjectLimits => ({
  subject,
  limits: limits.map((limit) => ({ ...limit, enforcement: 'observe' as const })),
  position: 1,
  replyTokensMax: null,
});
const TOKENS = { meter: 'tokens', window: 'day', cap: 10, reset: 0 } as const;
const REQUESTS = { meter: 'requests', window: 'day', cap: 1, reset: 0 } as const;

test('each observed limit decides on its own, and those that would reject a call are not charged', () => {
  const fleet = new Fleet();
  const subjects = [observed([TOKENS, REQUESTS])];
  const names = (outcome: Outcome) => (outcome as Reservation).rejections.map(({ meter }) => meter);
  for (const [tokens, expected] of [
    [11, ['tokens']],
    [6, ['requests']],
    [6, ['tokens', 'requests']],
    [4, ['requests']],
  ] as const) {
    const outcome = fleet.decide(0, subjects, tokens);
    expect(names(outcome)).toEqual(expected);
    (outcome as Reservation).settle({ input_tokens: tokens, output_tokens: 0 });
    fleet.tick(0);
  }
  fleet.tick(11_000);
  const used = [...fleet.store.allowances.values()].map(({ name, used: units }) => [name.meter, units]);
  expect(Object.fromEntries(used)).toEqual({ tokens: 10, requests: 1 });
});

test('a call passes an observed limit that can not decide, and is not charged to it', () => {
  const { admission } = new Fleet().servers[0] as Fleet['servers'][number];
  const nowMs = Date.parse('2026-11-23T12:00:10Z');
  const amounts = { tokens: 5, cost: 0 };
  let outcome: Outcome | null = null;
  const decided = admission.admit(
    [observed([TOKENS])],
    { minimum: amounts, wanted: amounts },
    nowMs,
    (later) => (outcome = later),
  );
  expect(decided).toBeNull();
  admission.nextRequest(nowMs, 0);
  // PostgreSQL doesn't answer.
  admission.requestFailed();
  expect(outcome).toBeInstanceOf(Reservation);
  expect(outcome).toMatchObject({
    observed: [],
    rejections: [{ subject: 'account/Account1', meter: 'tokens', window: 'day', limit: 10, needed: 5 }],
  });
});

test('a call with a new subject passes where its observed limits have no memory for counters', () => {
  const { admission } = new Fleet().servers[0] as Fleet['servers'][number];
  const nowMs = Date.parse('2026-11-23T12:00:10Z');
  const user = (index: number): SubjectLimits => observed([TOKENS], `end_user/Account1/${index}`);
  for (let index = 0; index < SUBJECTS_MAX; index++) admission.leases.of(user(index), nowMs);
  const amounts = { tokens: 5, cost: 0 };
  const need = { minimum: amounts, wanted: amounts };
  const outcome = admission.admit([user(SUBJECTS_MAX)], need, nowMs, () => undefined);
  expect(outcome).toMatchObject({ rejections: [{ meter: 'tokens', needed: 5 }] });
  expect(admission.leases.subjects).toBe(SUBJECTS_MAX);
});

test('a reply grows though an observed limit has no units for it', () => {
  const fleet = new Fleet();
  const call = fleet.decide(0, [observed([TOKENS])], 8) as Reservation;
  const { admission } = fleet.servers[0] as Fleet['servers'][number];
  let grown = 0;
  expect(admission.grow(call, { tokens: 8, cost: 0 }, fleet.nowMs, () => grown++)).toBe(true);
  fleet.exchange();
  expect([call.tokens, grown]).toEqual([16, 0]);
  call.settle({ input_tokens: 16, output_tokens: 0 });
  fleet.tick(11_000);
  const [allowance] = fleet.store.allowances.values();
  expect((allowance?.used ?? 0) + (allowance?.overdrawn ?? 0)).toBe(16);
});

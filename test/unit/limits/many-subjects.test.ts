import { expect, test } from 'vitest';
import type { LeaseRequest } from '#db/limits/leases.ts';
import { type Limit, type SubjectLimits, termsLimits } from '#db/limits/limits.ts';
import { AdmissionController } from '#server/limits/admission-controller.ts';
import type { Outcome } from '#server/limits/waiting-call.ts';
import {
  LEASE_REQUEST_LINES_MAX,
  SUBJECT_IDLE_MS,
  SUBJECTS_MAX,
  SUBJECTS_USUAL,
} from '#server/limits/bounds.ts';
import { limitErrorOf } from '#server/limits/limit-error.ts';
import { Reservation } from '#server/limits/reservation.ts';
import { SimStore } from '../../sim/store.ts';

const LIMITS: readonly Limit[] = [
  { meter: 'tokens', window: 'lifetime', cap: 100, enforcement: 'hard', reset: 0 },
];
const user = (index: number): SubjectLimits => ({
  subject: `end_user/Account1/${String(index).padStart(16, '0')}`,
  limits: LIMITS,
  position: 1,
  replyTokensMax: null,
});
const need = { minimum: { tokens: 10, cost: 0 }, wanted: { tokens: 10, cost: 0 } };

/** One server and its store, with a clock that is set by hand. */
class Server {
  readonly admission = new AdmissionController();
  readonly store: SimStore;
  readonly instance: number;
  nowMs = Date.parse('2026-11-23T12:00:00Z');
  lines = 0;
  requests = 0;

  constructor(store = new SimStore()) {
    this.store = store;
    this.instance = store.register();
  }

  exchange(): void {
    for (;;) {
      const request = this.admission.nextRequest(this.nowMs, 0);
      if (request === null) return;
      this.requests++;
      this.lines = Math.max(this.lines, request.lines.length);
      this.admission.applyResponse(this.store.exchange(this.instance, request, this.nowMs), this.nowMs);
    }
  }

  /** Calls of these end users at the same time; each uses 10 tokens and ends. */
  calls(users: readonly number[]): Outcome[] {
    const outcomes: Outcome[] = [];
    for (const each of users) {
      const outcome = this.admission.admit([user(each)], need, this.nowMs, (later) => outcomes.push(later));
      if (outcome) outcomes.push(outcome);
    }
    this.exchange();
    for (const outcome of outcomes)
      if (outcome instanceof Reservation) outcome.settle({ input_tokens: 7, output_tokens: 3 });
    return outcomes;
  }

  tick(ms: number): void {
    this.nowMs += ms;
    this.admission.tick(this.nowMs);
    this.exchange();
  }
}

const range = (count: number): number[] => Array.from({ length: count }, (_, index) => index);

test('leases of idle end users end, and continue where they were when their users come back', () => {
  const server = new Server();
  const users = range(300);
  expect(server.calls(users).every((each) => each instanceof Reservation)).toBe(true);
  expect(server.admission.leases.subjects).toBe(300);

  server.tick(SUBJECT_IDLE_MS + 1);
  expect(server.admission.leases.subjects).toBe(0);
  const leases = [...server.store.leases.values()].flatMap((each) => [...each.values()]);
  expect(leases.every(({ closed }) => closed)).toBe(true);
  for (const { used, held, granted, returned, sharers } of server.store.allowances.values())
    expect([used, held, granted - returned, sharers]).toEqual([10, 0, 10, 0]);

  // 90 tokens are left.
  for (let calls = 0; calls < 9; calls++)
    expect(server.calls([5])[0], `call ${calls}`).toBeInstanceOf(Reservation);
  const [rejected] = server.calls([5]);
  expect(rejected).toMatchObject({ kind: 'short' });
  const error = limitErrorOf(rejected as Exclude<Outcome, Reservation>, server.nowMs);
  expect(error).toMatchObject({
    code: 'insufficient_quota',
    limit: { scope: 'end_user', meter: 'tokens', window: 'lifetime', limit: 100, used: 100, resets_at: null },
  });
  expect(error.message).toContain("This end user's quota is 100 tokens in its lifetime");
  expect(error.message).not.toContain('00005');
});

test('a server with calls of ever more end users keeps few of them, and asks for many at once', () => {
  const server = new Server();
  const count = 2 * SUBJECTS_USUAL;
  let kept = 0;
  for (let from = 0; from < count; from += 500) {
    expect(server.calls(range(500).map((index) => from + index))).toHaveLength(500);
    server.tick(500);
    kept = Math.max(kept, server.admission.leases.subjects);
  }
  expect(kept).toBeLessThanOrEqual(SUBJECTS_USUAL);
  // A request has at most one call's lines more than the bound, and as many of those that return units.
  expect(server.lines).toBeLessThanOrEqual(2 * LEASE_REQUEST_LINES_MAX + 2);
  expect(server.requests / count).toBeLessThan(0.05);
});

test('units that calls of another server wait for return before the leases of idle end users', () => {
  const store = new SimStore();
  const [holder, waiting] = [new Server(store), new Server(store)];
  holder.calls(range(10 * LEASE_REQUEST_LINES_MAX));
  const most = { minimum: { tokens: 60, cost: 0 }, wanted: { tokens: 60, cost: 0 } };
  const outcomes: Outcome[] = [];
  for (const server of [holder, waiting]) {
    server.admission.admit([user(-1)], most, server.nowMs, (outcome) => outcomes.push(outcome));
    const request = server.admission.nextRequest(server.nowMs, 0) as LeaseRequest;
    server.admission.applyResponse(store.exchange(server.instance, request, server.nowMs), server.nowMs);
  }
  const [running] = outcomes as [Reservation];
  expect(outcomes).toHaveLength(1);
  for (const { allowance } of running.counters) holder.admission.leases.recall(allowance as number);
  holder.exchange();

  holder.admission.tick(holder.nowMs + SUBJECT_IDLE_MS + 1);
  running.settle({ input_tokens: 7, output_tokens: 3 });
  const request = holder.admission.nextRequest(holder.nowMs, 0) as LeaseRequest;
  expect(request.lines).toHaveLength(LEASE_REQUEST_LINES_MAX);
  expect(request.lines.map(({ subject }) => subject)).toContain(user(-1).subject);
  holder.admission.applyResponse(store.exchange(holder.instance, request, holder.nowMs), holder.nowMs);
  waiting.exchange();
  expect(outcomes[1]).toBeInstanceOf(Reservation);
});

test('with counters of the most subjects that there is memory for, calls of others are put off', () => {
  const { admission, nowMs } = new Server();
  for (const index of range(SUBJECTS_MAX)) admission.leases.of(user(index), nowMs);
  const admit = (index: number) => admission.admit([user(index)], need, nowMs, () => undefined);
  expect(admit(SUBJECTS_MAX)).toEqual({ kind: 'unavailable' });
  expect(admission.leases.subjects).toBe(SUBJECTS_MAX);
  // It waits for a lease.
  expect(admit(0)).toBeNull();
});

test('a prepaid balance is a hard limit that no reset of windows gives back', () => {
  expect(termsLimits({ topped_up_nanousd: 5 }, 9)).toEqual([
    { meter: 'cost_nanousd', window: 'lifetime', cap: 5, enforcement: 'hard', reset: 0, per: null },
  ]);
});

import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ATTEMPTS_MAX } from '#db/events/upstream-events.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { AttemptFailure, FailureCause } from '#server/relay/failure.ts';
import { unsentEnd } from '#server/relay/reply-usage.ts';
import { AttemptSequence } from '#server/relay/attempt-sequence.ts';
import { NEW_ATTEMPT_WITHIN_MS, RETRY_PAUSE_MS, RETRY_WAIT_MAX_MS } from '#server/upstreams/bounds.ts';
import { Target } from '#server/upstreams/target.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';
import { unsent } from '../../support/upstream/dispatched.ts';
import { runs } from '../../fuzz/property-runs.ts';

const failureOf = (problem: FailureCause, retryAfterMs: number | null = null): AttemptFailure => ({
  error: new ApiError('upstream_error'),
  reason: 'upstream_error',
  cause: problem,
  retryAfterMs,
});
const NOTHING = unsentEnd('upstream_error', 502);
const targetsOf = (...upstreams: Upstream[]): Target[] =>
  upstreams.map((upstream, order) => new Target(upstream, null, 1, order));
const healths = (upstreams: readonly Upstream[]) =>
  upstreams.flatMap(({ circuit: health, pools: lines }) => [health, ...lines.map((line) => line.circuit)]);

/** Goes where it is sent until that is nowhere; says where that was, and how long it waited before each. */
function play(
  attempts: AttemptSequence,
  problems: readonly FailureCause[],
  retryAfterMs: number | null = null,
): { at: string[]; waitsMs: number[] } {
  const [at, waitsMs] = [[] as string[], [] as number[]];
  let next = { ...attempts.first(performance.now()), waitMs: 0 } as ReturnType<AttemptSequence['failed']>;
  while (next) {
    at.push(next.pool.credential ?? '');
    waitsMs.push(next.waitMs);
    attempts.start(next);
    next = attempts.failed(
      failureOf(problems[at.length - 1] ?? problems.at(-1) ?? 500, retryAfterMs),
      performance.now(),
      NOTHING,
    );
  }
  return { at, waitsMs };
}

describe('a call that fails', () => {
  test('goes to the other upstreams at once, in their order, and each is reported', () => {
    const upstreams = [unsent('a', { credentials: 2 }), unsent('b'), unsent('c')];
    const attempts = new AttemptSequence(targetsOf(...upstreams));
    const { at, waitsMs } = play(attempts, ['cut', 503, 'unreachable']);
    // Any of a pool's credentials may be the first.
    expect(['a-0', 'a-1']).toContain(at[0]);
    expect({ at: at.slice(1), waitsMs }).toEqual({ at: ['b-0', 'c-0'], waitsMs: [0, 0, 0] });
    expect(
      attempts.records.map(({ attempt: { upstream, credential, outcome } }) => [
        upstream,
        credential,
        outcome,
      ]),
    ).toEqual([
      ['a', at[0], 'cut'],
      ['b', 'b-0', 'status_503'],
      ['c', 'c-0', 'unreachable'],
    ]);
    expect([attempts.count, attempts.upstream]).toEqual([3, 'c']);
    expect(healths(upstreams).map(({ running }) => running)).toEqual([0, 0, 0, 0, 0, 0, 0]);
  });

  test('by its credential goes to the next one of the same upstream first', () => {
    const [a, b] = [unsent('a', { credentials: 2 }), unsent('b')];
    const { at } = play(new AttemptSequence(targetsOf(a, b)), [401, 429, 500]);
    expect([at.slice(0, 2).toSorted(), at[2]]).toEqual([['a-0', 'a-1'], 'b-0']);
    expect([
      a.circuit.status(0).state,
      ...a.pools.map((line) => line.circuit.status(performance.now()).state),
    ]).toEqual(['healthy', 'open', 'open']);
  });

  test('by its own fault goes nowhere', () => {
    for (const status of [400, 413, 422])
      expect(
        play(new AttemptSequence(targetsOf(unsent('a', { retries: 3 }), unsent('b'))), [status]).at,
      ).toEqual(['a-0']);
  });

  test('is retried at the same one only as often as its terms say, after pauses that grow', () => {
    const { at, waitsMs } = play(new AttemptSequence(targetsOf(unsent('a', { retries: 3 }))), ['cut']);
    expect(at).toEqual(['a-0', 'a-0', 'a-0', 'a-0']);
    for (const [index, waitMs] of waitsMs.slice(1).entries()) {
      const pauseMs = RETRY_PAUSE_MS * 2 ** index;
      expect(waitMs).toBeGreaterThanOrEqual(pauseMs * 0.5);
      expect(waitMs).toBeLessThanOrEqual(pauseMs * 1.5);
    }
    expect(play(new AttemptSequence(targetsOf(unsent('a'))), ['cut']).at).toEqual(['a-0']);
    // Nothing mends a credential within a second.
    expect(play(new AttemptSequence(targetsOf(unsent('a', { retries: 3 }))), [401]).at).toEqual(['a-0']);
  });

  test('waits for as long as the upstream asks, unless that is too long', () => {
    expect(
      play(new AttemptSequence(targetsOf(unsent('a', { retries: 1 }))), [429, 400], RETRY_WAIT_MAX_MS)
        .waitsMs,
    ).toEqual([0, RETRY_WAIT_MAX_MS]);
    expect(
      play(new AttemptSequence(targetsOf(unsent('a', { retries: 1 }))), [429, 400], RETRY_WAIT_MAX_MS + 1).at,
    ).toEqual(['a-0']);
    // Who is somewhere else does not wait.
    expect(
      play(new AttemptSequence(targetsOf(unsent('a', { retries: 1 }), unsent('b'))), [429, 400], 9_000),
    ).toEqual({
      at: ['a-0', 'b-0'],
      waitsMs: [0, 0],
    });
  });

  test('begins no new try after a while, however many are left', () => {
    const attempts = new AttemptSequence(targetsOf(unsent('a', { retries: 3 }), unsent('b')));
    attempts.start(attempts.first(0));
    expect(attempts.canFallBack).toBe(true);
    expect(
      attempts.failed(failureOf('timed_out'), performance.now() + NEW_ATTEMPT_WITHIN_MS + 1, NOTHING),
    ).toBeNull();
  });
});

test('the last attempt is reported with its outcome, once', () => {
  const [a] = [unsent('a')];
  const attempts = new AttemptSequence(targetsOf(a));
  attempts.start(attempts.first(0));
  attempts.end('completed', performance.now());
  expect([attempts.count, attempts.records.length, a.circuit.running]).toEqual([1, 1, 0]);
  // What ends twice has ended once.
  attempts.end('completed', performance.now());
  expect(attempts.count).toBe(1);
});

test('a reply that breaks off counts as a failure of its upstream; a client disconnect does not', () => {
  const failuresAfter = (
    reason:
      | 'upstream_disconnected'
      | 'timed_out'
      | 'client_disconnected'
      | 'completed'
      | 'service_unavailable',
  ): number => {
    const upstream = unsent('a');
    const attempts = new AttemptSequence(targetsOf(upstream));
    attempts.start(attempts.first(0));
    attempts.replyStarted(5);
    attempts.end(reason, performance.now());
    return upstream.circuit.status(0).failures;
  };
  expect(
    (
      [
        'upstream_disconnected',
        'timed_out',
        'client_disconnected',
        'completed',
        'service_unavailable',
      ] as const
    ).map(failuresAfter),
  ).toEqual([1, 1, 0, 0, 0]);
});

test('attempts are bounded, all reported, spaced by the backoff, and none is left running', () => {
  const place = fc.record({ credentials: fc.integer({ min: 1, max: 4 }), retries: fc.nat(3) });
  const problem = fc.constantFrom<FailureCause>(
    'unreachable',
    'timed_out',
    'cut',
    'unreadable',
    'error_event',
    'unsupported',
    'reply_begun',
    400,
    401,
    404,
    429,
    500,
    503,
    999,
  );
  let longest = 0;
  fc.assert(
    fc.property(
      fc.array(place, { minLength: 1, maxLength: 5 }),
      fc.array(problem, { minLength: 1, maxLength: 8 }),
      fc.option(fc.nat(20_000)),
      (places, problems, retryAfterMs) => {
        const upstreams = places.map((each, index) => unsent(`u${index}`, each));
        const attempts = new AttemptSequence(targetsOf(...upstreams));
        const { at, waitsMs } = play(attempts, problems, retryAfterMs);
        longest = Math.max(longest, at.length);
        expect(at.length).toBeLessThanOrEqual(ATTEMPTS_MAX);
        expect(attempts.count).toBe(at.length);
        expect(attempts.records.map(({ attempt }) => attempt.credential)).toEqual(at);
        for (const [index, line] of at.entries()) {
          if (at.indexOf(line) < index) expect(waitsMs[index]).toBeGreaterThanOrEqual(RETRY_PAUSE_MS / 2);
          expect(waitsMs[index]).toBeLessThanOrEqual(RETRY_WAIT_MAX_MS);
        }
        expect(waitsMs.filter((waitMs) => waitMs > 0).length).toBeLessThanOrEqual(
          Math.max(...places.map(({ retries }) => retries)),
        );
        expect(healths(upstreams).every(({ running }) => running === 0)).toBe(true);
      },
    ),
    runs(175),
  );
  expect(longest).toBe(ATTEMPTS_MAX);
});

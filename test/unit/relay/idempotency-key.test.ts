import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { mayHaveRun } from '#server/idempotency/may-have-run.ts';
import { answerOf, evolveKey, type KeyEvent, type KeyState } from '#server/idempotency/key-state.ts';
import { NO_FACTS } from '#server/wire/reply-facts.ts';

/** The state machine of an idempotency key. */

const FREE: KeyState = { kind: 'free' };
const FINGERPRINT = 'f';

/** Anything that servers may do with the key of any of these requests, also late and out of order. */
const request = fc.constantFrom('r1', 'r2', 'r3', 'r4');
const anyEvent: fc.Arbitrary<KeyEvent> = fc.oneof(
  fc.record({
    type: fc.constant('claimed' as const),
    request,
    fingerprint: fc.constantFrom(FINGERPRINT, 'other'),
  }),
  fc.record({ type: fc.constant('released' as const), request }),
  fc.record({ type: fc.constant('ended' as const), request, isKept: fc.boolean() }),
  fc.record({
    type: fc.constant('recovered' as const),
    request,
    inLog: fc.constantFrom('nothing' as const, 'accepted' as const, 'settled' as const),
  }),
  fc.record({ type: fc.constant('reply_deleted' as const), request }),
  fc.constant({ type: 'expired' as const }),
);

const ownerOf = (state: KeyState): string | null => (state.kind === 'free' ? null : state.request);

describe('an idempotency key', () => {
  test('belongs to one request from its claim until it is released, recovered unsent or expired', () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 30 }), (events) => {
        let state: KeyState = FREE;
        for (const event of events) {
          const before = ownerOf(state);
          state = evolveKey(state, event);
          const after = ownerOf(state);
          if (before === null || after === before) continue;
          // It changes hands by way of a free key only.
          expect(after).toBeNull();
          expect(
            event.type === 'expired' ||
              ((event.type === 'released' || (event.type === 'recovered' && event.inLog === 'nothing')) &&
                event.request === before),
          ).toBe(true);
        }
      }),
    );
  });

  test('lets at most one request be sent while it is claimed, in whatever order servers end and die', () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 40 }), (events) => {
        let state: KeyState = FREE;
        /** Requests that were sent since the key was free by a release or by its expiry. */
        let sent = 0;
        for (const event of events) {
          // A request is sent if the answer is that it begins.
          const begins = event.type === 'claimed' && answerOf(state, event.fingerprint).kind === 'begin';
          state = evolveKey(state, event);
          if (begins) sent++;
          expect(sent).toBeLessThanOrEqual(1);
          if (state.kind === 'free') sent = 0;
        }
      }),
    );
  });

  test('that was lost is never sent again and never has a reply, until it expires', () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 30 }), (events) => {
        let state = evolveKey(FREE, { type: 'claimed', request: 'r1', fingerprint: FINGERPRINT });
        state = evolveKey(state, { type: 'recovered', request: 'r1', inLog: 'accepted' });
        for (const event of events.filter(({ type }) => type !== 'expired')) state = evolveKey(state, event);
        expect(answerOf(state, FINGERPRINT)).toEqual({ kind: 'unknown', request: 'r1' });
      }),
    );
  });

  test('answers another request with a mismatch in each state but free', () => {
    fc.assert(
      fc.property(fc.array(anyEvent, { maxLength: 30 }), (events) => {
        const state = events.reduce<KeyState>(evolveKey, FREE);
        expect(answerOf(state, 'none of them').kind).toBe(state.kind === 'free' ? 'begin' : 'mismatch');
      }),
    );
  });

  test('has one reply, which is the one that ended it', () => {
    let state = evolveKey(FREE, { type: 'claimed', request: 'r1', fingerprint: FINGERPRINT });
    expect(answerOf(state, FINGERPRINT)).toEqual({ kind: 'join', request: 'r1' });
    state = evolveKey(state, { type: 'ended', request: 'r1', isKept: true });
    expect(evolveKey(state, { type: 'ended', request: 'r1', isKept: false })).toBe(state);
    expect(answerOf(state, FINGERPRINT)).toEqual({ kind: 'replay', request: 'r1' });
    state = evolveKey(state, { type: 'reply_deleted', request: 'r1' });
    expect(answerOf(state, FINGERPRINT)).toEqual({ kind: 'no_reply', request: 'r1' });
  });
});

describe('a model may have worked on a call', () => {
  const NOTHING = { input: 0, cached: 0, output: 0, reasoning: 0 };
  const usage = (source: 'none' | 'estimated') => ({ status: 0, usage: NOTHING, source, facts: NO_FACTS });
  const attempt = (outcome: string, source: 'none' | 'estimated' = 'none') => ({
    attempt: { upstream: 'one', outcome, duration_ms: 1 },
    consumed: usage(source),
  });

  test.each([
    ['none at all', [], false],
    ['rejected', [attempt('status_400')], false],
    ['rate limited, then unavailable', [attempt('status_429'), attempt('status_503')], false],
    ['not reachable', [attempt('unreachable')], false],
    ['not connected in time', [attempt('timed_out')], false],
    ['sent, and not answered in time', [attempt('timed_out', 'estimated')], true],
    ['sent to an unreachable host', [attempt('unreachable', 'estimated')], true],
    ['failed', [attempt('status_500')], true],
    ['given up by a proxy', [attempt('status_504')], true],
    ['given up by the upstream', [attempt('status_408')], true],
    ['cut', [attempt('cut')], true],
    ['failed, then rejected', [attempt('status_502'), attempt('status_400')], true],
    ['completed', [attempt('completed', 'estimated')], true],
  ])('attempts: %s', (_name, attempts, isPossible) => {
    expect(mayHaveRun(attempts, { source: 'none' })).toBe(isPossible);
  });
});

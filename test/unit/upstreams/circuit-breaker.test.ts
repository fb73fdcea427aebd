import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { EJECT_AFTER_FAILURES, EJECTION_MAX_MS, EJECTION_MS } from '#server/upstreams/bounds.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';

/** A call that begins and fails at the same moment. */
function fail(health: CircuitBreaker, nowMs: number, openForMs: number | null = null): void {
  health.began(nowMs);
  health.ended(nowMs);
  health.failed(nowMs, nowMs, 'cut', openForMs);
}

function ejected(nowMs = 0): CircuitBreaker {
  const health = new CircuitBreaker();
  for (let count = 0; count < EJECT_AFTER_FAILURES; count++) fail(health, nowMs);
  return health;
}

describe('an upstream', () => {
  test('is ejected after so many failures in a row, and not before', () => {
    const health = new CircuitBreaker();
    for (let count = 1; count < EJECT_AFTER_FAILURES; count++) {
      fail(health, count);
      expect([health.isOpen(count), health.standing(count).state]).toEqual([true, 'failing']);
    }
    fail(health, 10);
    expect([health.isOpen(10), health.isOpen(10 + EJECTION_MS - 1), health.isOpen(10 + EJECTION_MS)]).toEqual(
      [false, false, true],
    );
    expect(health.standing(10)).toEqual({
      state: 'ejected',
      problem: 'cut',
      failures: EJECT_AFTER_FAILURES,
      ejected_ms: EJECTION_MS,
      running: 0,
    });
  });

  test('that answers in between is not ejected, however often it fails', () => {
    const health = new CircuitBreaker();
    for (let count = 0; count < 50; count++) {
      if (count % (EJECT_AFTER_FAILURES - 1) === 0) health.succeeded();
      fail(health, count);
      expect(health.isOpen(count)).toBe(true);
    }
  });

  test('stays away for twice as long each time it is tried in vain, up to a bound', () => {
    const health = ejected();
    let [nowMs, expectedMs] = [EJECTION_MS, EJECTION_MS];
    for (let count = 0; count < 12; count++) {
      fail(health, nowMs);
      expectedMs = Math.min(expectedMs * 2, EJECTION_MAX_MS);
      expect(health.untilMs - nowMs).toBe(expectedMs);
      nowMs = health.untilMs;
    }
    expect(expectedMs).toBe(EJECTION_MAX_MS);
  });

  test('whose outage ends a hundred calls at once is ejected once', () => {
    const health = new CircuitBreaker();
    for (let count = 0; count < 100; count++) health.began(0);
    for (let count = 0; count < 100; count++) {
      health.ended(0);
      health.failed(0, 1_000 + count, 'cut', null);
    }
    expect(health.untilMs).toBe(1_000 + EJECT_AFTER_FAILURES - 1 + EJECTION_MS);
    // One that hung since before tells nothing of how it is now.
    health.failed(0, health.untilMs + 1, 'timed_out', null);
    expect(health.isOpen(health.untilMs + 1)).toBe(true);
  });

  test('is tried by one call at a time, and by the next where that says nothing', () => {
    const health = ejected();
    const backMs = health.untilMs;
    health.began(backMs);
    expect([health.isOpen(backMs), health.standing(backMs).state]).toEqual([false, 'on_trial']);
    // Not the trial's end.
    health.ended(backMs - 1);
    expect(health.isOpen(backMs)).toBe(false);
    health.ended(backMs);
    expect(health.isOpen(backMs)).toBe(true);
  });

  test('is back as if nothing had been after one good answer', () => {
    const health = ejected();
    health.began(health.untilMs);
    health.succeeded();
    expect(health.standing(0)).toEqual({
      state: 'good',
      problem: null,
      failures: 0,
      ejected_ms: 0,
      running: 1,
    });
    for (let count = 1; count < EJECT_AFTER_FAILURES; count++) fail(health, 0);
    expect(health.isOpen(0)).toBe(true);
    fail(health, 0);
    expect(health.untilMs).toBe(EJECTION_MS);
  });

  test('whose replies begin well and break off is ejected after as many, and soon again, until one comes whole', () => {
    const health = new CircuitBreaker();
    const breakOff = (nowMs: number): void => {
      health.began(nowMs);
      health.answered();
      health.ended(nowMs);
      health.broke(nowMs, nowMs, 'upstream_disconnected');
    };
    for (let count = 1; count < EJECT_AFTER_FAILURES; count++) breakOff(count);
    expect(health.standing(10)).toMatchObject({
      state: 'failing',
      problem: 'upstream_disconnected',
      failures: EJECT_AFTER_FAILURES - 1,
    });
    breakOff(10);
    expect([health.isOpen(11), health.untilMs]).toEqual([false, 10 + EJECTION_MS]);
    breakOff(health.untilMs);
    expect(health.untilMs).toBe(10 + 2 * EJECTION_MS);
    health.succeeded();
    breakOff(0);
    expect([health.isOpen(0), health.standing(0).failures]).toEqual([true, 1]);
  });

  test('that says for how long it is of no use is taken at its word, at the first time and at the longest', () => {
    const health = new CircuitBreaker();
    fail(health, 0, 1_000);
    fail(health, 10, 30_000);
    fail(health, 20, 500);
    expect([health.untilMs, health.isOpen(30_009), health.isOpen(30_010)]).toEqual([30_010, false, true]);
  });
});

test('whatever happens, in whatever order: the calls are counted, one at most is on trial, and good news opens', () => {
  const step = fc.record({
    what: fc.constantFrom('begin', 'end', 'fail', 'answer'),
    which: fc.nat(9),
    passMs: fc.nat(20_000),
    openForMs: fc.option(fc.nat(60_000)),
  });
  let trials = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const health = new CircuitBreaker();
      /** When each call began that runs; each at a moment of its own. */
      const running: number[] = [];
      let [nowMs, onTrial] = [0, null as number | null];
      for (const { what, which, passMs, openForMs } of steps) {
        nowMs += passMs + 1;
        const wasOpen = health.isOpen(nowMs);
        if (what === 'begin') {
          // Only where it may, as dispatch does while there is another.
          if (!wasOpen) continue;
          if (health.standing(nowMs).state === 'on_trial') {
            expect(onTrial).toBeNull();
            onTrial = nowMs;
            trials++;
          }
          health.began(nowMs);
          running.push(nowMs);
        } else {
          const [beganMs] = running.splice(which % Math.max(running.length, 1), 1);
          if (beganMs === undefined) continue;
          if (what === 'answer') {
            health.succeeded();
            expect(health.isOpen(nowMs)).toBe(true);
            onTrial = null;
          }
          health.ended(beganMs);
          if (beganMs === onTrial) onTrial = null;
          if (what === 'fail') health.failed(beganMs, nowMs, 'cut', openForMs);
        }
        expect(health.running).toBe(running.length);
        expect(health.untilMs - nowMs).toBeLessThanOrEqual(EJECTION_MAX_MS);
      }
    }),
    { numRuns: 500 },
  );
  expect(trials).toBeGreaterThan(100);
});

import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DEAD_AFTER_MS } from '#db/bounds.ts';
import { STALL_MAX_MS } from '#server/instance/bounds.ts';
import { FencingGuard } from '#server/instance/fencing-guard.ts';

/** A life that began at 0 and has run until `ms`, with a tick every quarter of a second. */
function livedUntil(ms: number, life = new FencingGuard(), fromMs = 0): FencingGuard {
  if (fromMs === 0) life.begin(0);
  for (let at = fromMs; at <= ms; at += 250) life.tick(at);
  return life;
}

test('before an instance was taken, and after it was lost, nothing may be said', () => {
  const life = new FencingGuard();
  expect([life.isGood(0), life.isLost]).toEqual([false, true]);
  life.begin(0);
  expect([life.isGood(1), life.isLost]).toEqual([true, false]);
  life.lose();
  life.tick(2);
  life.confirm(3, 4);
  expect([life.isGood(5), life.isLost]).toEqual([false, true]);
  life.begin(6);
  expect(life.isGood(7)).toBe(true);
});

test('a process that runs goes on, however long the store has been away', () => {
  const life = livedUntil(600_000);
  expect(life.isGood(600_100)).toBe(true);
});

test('a pause is harmless while a heartbeat is too young for anybody to have declared us dead', () => {
  const life = livedUntil(1_000);
  life.confirm(990, 1_000);
  expect(life.isGood(990 + DEAD_AFTER_MS - 1_000)).toBe(true);
});

test('after a longer one nothing is said until a heartbeat that was sent after waking is answered', () => {
  const life = livedUntil(1_000);
  life.confirm(990, 1_000);
  const told: boolean[] = [];
  expect(life.isGood(20_000)).toBe(false);
  life.whenKnown((isAlive) => told.push(isAlive));
  // The answer that lay in the socket all the while.
  life.confirm(1_990, 20_001);
  life.tick(20_002);
  expect([life.isGood(20_003), told]).toEqual([false, []]);
  life.confirm(20_004, 20_005);
  expect([life.isGood(20_006), told]).toEqual([true, [true]]);
});

test('whichever callback comes first after waking finds the pause', () => {
  const wake: ((life: FencingGuard) => void)[] = [
    (life) => life.isGood(20_000),
    (life) => life.tick(20_000),
    (life) => life.confirm(990, 20_000),
  ];
  for (const first of wake) {
    const life = livedUntil(1_000);
    first(life);
    expect(life.isGood(20_001)).toBe(false);
  }
});

test('who waits is told that it is lost, and who asks then is told at once', () => {
  const life = livedUntil(0);
  const told: boolean[] = [];
  life.isGood(20_000);
  life.whenKnown((isAlive) => told.push(isAlive));
  life.lose();
  life.whenKnown((isAlive) => told.push(isAlive));
  expect(told).toEqual([false, false]);
});

test('whatever the pauses, nothing is said after one that outlasted the last answered heartbeat, until a new one is answered', () => {
  const steps = fc.array(fc.record({ pauseMs: fc.nat(12_000), heartbeat: fc.boolean() }), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (list) => {
      const life = new FencingGuard();
      life.begin(0);
      let nowMs = 0;
      let answeredMs = 0;
      let mayBeDead = false;
      for (const { pauseMs, heartbeat } of list) {
        nowMs += pauseMs;
        // Others may have declared it dead in a pause that reached beyond this.
        if (pauseMs > STALL_MAX_MS && nowMs - answeredMs >= DEAD_AFTER_MS) mayBeDead = true;
        if (mayBeDead && life.isGood(nowMs)) return false;
        life.tick(nowMs);
        if (!heartbeat) continue;
        answeredMs = nowMs;
        mayBeDead = false;
        life.confirm(nowMs, nowMs);
        if (!life.isGood(nowMs)) return false;
      }
      return true;
    }),
    { numRuns: 2_000 },
  );
});

import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { DEAD_AFTER_MS, DELAY_MAX_MS, STALL_MAX_MS } from '#db/bounds.ts';
import { FencingGuard } from '#db/instances/fencing-guard.ts';

/** A guard that began at 0 and has run until `ms`, with a tick every quarter of a second. */
function ranUntil(ms: number, guard = new FencingGuard(), fromMs = 0): FencingGuard {
  if (fromMs === 0) guard.begin(0);
  for (let at = fromMs; at <= ms; at += 250) guard.tick(at);
  return guard;
}

test('is fenced before the first registration and after a fence', () => {
  const guard = new FencingGuard();
  expect([guard.isValid(0), guard.isFenced]).toEqual([false, true]);
  guard.begin(0);
  expect([guard.isValid(1), guard.isFenced]).toEqual([true, false]);
  guard.fence();
  guard.tick(2);
  guard.confirm(3, 4);
  expect([guard.isValid(5), guard.isFenced]).toEqual([false, true]);
  guard.begin(6);
  expect(guard.isValid(7)).toBe(true);
});

test('stays valid while the process runs, however long the database is away', () => {
  const guard = ranUntil(600_000);
  expect(guard.isValid(600_100)).toBe(true);
});

test('stays valid through a pause that is too short for a peer to have declared it dead', () => {
  const guard = ranUntil(1_000);
  guard.confirm(990, 1_000);
  expect(guard.isValid(990 + DEAD_AFTER_MS - 1_000)).toBe(true);
});

test('is suspect after a longer pause, until a heartbeat sent after waking is answered', () => {
  const guard = ranUntil(1_000);
  guard.confirm(990, 1_000);
  const reported: boolean[] = [];
  expect(guard.isValid(20_000)).toBe(false);
  guard.whenKnown((isValid) => reported.push(isValid));
  // The answer that lay in the socket all the while.
  guard.confirm(1_990, 20_001);
  guard.tick(20_002);
  expect([guard.isValid(20_003), reported]).toEqual([false, []]);
  guard.confirm(20_004, 20_005);
  expect([guard.isValid(20_006), reported]).toEqual([true, [true]]);
});

test('becomes suspect by whichever call comes first after waking', () => {
  const wake: ((guard: FencingGuard) => void)[] = [
    (guard) => guard.isValid(20_000),
    (guard) => guard.tick(20_000),
    (guard) => guard.confirm(990, 20_000),
  ];
  for (const first of wake) {
    const guard = ranUntil(1_000);
    first(guard);
    expect(guard.isValid(20_001)).toBe(false);
  }
});

test('calls back with false when it is fenced while suspect, and at once afterwards', () => {
  const guard = ranUntil(0);
  const reported: boolean[] = [];
  guard.isValid(20_000);
  guard.whenKnown((isValid) => reported.push(isValid));
  guard.fence();
  guard.whenKnown((isValid) => reported.push(isValid));
  expect(reported).toEqual([false, false]);
});

test('is never valid after a pause beyond the last confirmed heartbeat, until the next one', () => {
  const steps = fc.array(fc.record({ pauseMs: fc.nat(12_000), heartbeat: fc.boolean() }), { maxLength: 60 });
  fc.assert(
    fc.property(steps, (list) => {
      const guard = new FencingGuard();
      guard.begin(0);
      let nowMs = 0;
      let answeredMs = 0;
      let mayBeDead = false;
      for (const { pauseMs, heartbeat } of list) {
        nowMs += pauseMs;
        // Others may have declared it dead in a pause that reached beyond this.
        if (pauseMs > STALL_MAX_MS && nowMs - answeredMs >= DEAD_AFTER_MS) mayBeDead = true;
        if (mayBeDead && guard.isValid(nowMs)) return false;
        guard.tick(nowMs);
        if (!heartbeat) continue;
        answeredMs = nowMs;
        mayBeDead = false;
        guard.confirm(nowMs, nowMs);
        if (!guard.isValid(nowMs)) return false;
      }
      return true;
    }),
    { numRuns: 2_000 },
  );
});

test('knows how late the event loop was of late', () => {
  const guard = ranUntil(1_000);
  expect(guard.delayMs).toBe(0);
  guard.tick(1_600);
  expect(guard.delayMs).toBe(350);
  guard.tick(1_850);
  expect(guard.delayMs).toBe(100);
  guard.tick(2_100);
  expect(guard.delayMs).toBe(0);
});

test('forgets within seconds how late the event loop was, however long it stood still', () => {
  const guard = ranUntil(1_000);
  guard.tick(60_000);
  expect(guard.delayMs).toBe(DELAY_MAX_MS);
  ranUntil(60_000 + DELAY_MAX_MS, guard, 60_250);
  expect(guard.delayMs).toBe(0);
  guard.tick(120_000);
  guard.begin(120_000);
  expect(guard.delayMs).toBe(0);
});

import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { OPEN_AFTER_FAILURES, CIRCUIT_OPEN_MAX_MS, CIRCUIT_OPEN_MS } from '#server/upstreams/bounds.ts';
import { CircuitBreaker } from '#server/upstreams/circuit-breaker.ts';

/** A call that begins and fails at the same moment. */
function fail(circuit: CircuitBreaker, nowMs: number, openForMs: number | null = null): void {
  circuit.began(nowMs);
  circuit.ended(nowMs);
  circuit.failed(nowMs, nowMs, 'cut', openForMs);
}

function openCircuit(nowMs = 0): CircuitBreaker {
  const circuit = new CircuitBreaker();
  for (let count = 0; count < OPEN_AFTER_FAILURES; count++) fail(circuit, nowMs);
  return circuit;
}

describe('a circuit', () => {
  test('opens after OPEN_AFTER_FAILURES failures in a row, not before', () => {
    const circuit = new CircuitBreaker();
    for (let count = 1; count < OPEN_AFTER_FAILURES; count++) {
      fail(circuit, count);
      expect([circuit.allows(count), circuit.status(count).state]).toEqual([true, 'degraded']);
    }
    fail(circuit, 10);
    expect([
      circuit.allows(10),
      circuit.allows(10 + CIRCUIT_OPEN_MS - 1),
      circuit.allows(10 + CIRCUIT_OPEN_MS),
    ]).toEqual([false, false, true]);
    expect(circuit.status(10)).toEqual({
      state: 'open',
      problem: 'cut',
      failures: OPEN_AFTER_FAILURES,
      open_ms: CIRCUIT_OPEN_MS,
      running: 0,
    });
  });

  test('stays closed while answers come in between, however often calls fail', () => {
    const circuit = new CircuitBreaker();
    for (let count = 0; count < 50; count++) {
      if (count % (OPEN_AFTER_FAILURES - 1) === 0) circuit.succeeded();
      fail(circuit, count);
      expect(circuit.allows(count)).toBe(true);
    }
  });

  test('stays open for twice as long after each failed trial, up to a maximum', () => {
    const circuit = openCircuit();
    let [nowMs, expectedMs] = [CIRCUIT_OPEN_MS, CIRCUIT_OPEN_MS];
    for (let count = 0; count < 12; count++) {
      fail(circuit, nowMs);
      expectedMs = Math.min(expectedMs * 2, CIRCUIT_OPEN_MAX_MS);
      expect(circuit.openUntilMs - nowMs).toBe(expectedMs);
      nowMs = circuit.openUntilMs;
    }
    expect(expectedMs).toBe(CIRCUIT_OPEN_MAX_MS);
  });

  test('opens once where an outage ends a hundred calls at once', () => {
    const circuit = new CircuitBreaker();
    for (let count = 0; count < 100; count++) circuit.began(0);
    for (let count = 0; count < 100; count++) {
      circuit.ended(0);
      circuit.failed(0, 1_000 + count, 'cut', null);
    }
    expect(circuit.openUntilMs).toBe(1_000 + OPEN_AFTER_FAILURES - 1 + CIRCUIT_OPEN_MS);
    // A call that began before the circuit opened says nothing about the upstream now.
    circuit.failed(0, circuit.openUntilMs + 1, 'timed_out', null);
    expect(circuit.allows(circuit.openUntilMs + 1)).toBe(true);
  });

  test('allows one trial call at a time when half-open, and the next where that one has no result', () => {
    const circuit = openCircuit();
    const backMs = circuit.openUntilMs;
    circuit.began(backMs);
    expect([circuit.allows(backMs), circuit.status(backMs).state]).toEqual([false, 'half_open']);
    // The end of another call, not of the trial.
    circuit.ended(backMs - 1);
    expect(circuit.allows(backMs)).toBe(false);
    circuit.ended(backMs);
    expect(circuit.allows(backMs)).toBe(true);
  });

  test('closes and counts from zero after one answer', () => {
    const circuit = openCircuit();
    circuit.began(circuit.openUntilMs);
    circuit.succeeded();
    expect(circuit.status(0)).toEqual({
      state: 'healthy',
      problem: null,
      failures: 0,
      open_ms: 0,
      running: 1,
    });
    for (let count = 1; count < OPEN_AFTER_FAILURES; count++) fail(circuit, 0);
    expect(circuit.allows(0)).toBe(true);
    fail(circuit, 0);
    expect(circuit.openUntilMs).toBe(CIRCUIT_OPEN_MS);
  });

  test('opens after as many interrupted replies, and again at once, until a reply comes to its end', () => {
    const circuit = new CircuitBreaker();
    const breakOff = (nowMs: number): void => {
      circuit.began(nowMs);
      circuit.answered();
      circuit.ended(nowMs);
      circuit.interrupted(nowMs, nowMs, 'upstream_disconnected');
    };
    for (let count = 1; count < OPEN_AFTER_FAILURES; count++) breakOff(count);
    expect(circuit.status(10)).toMatchObject({
      state: 'degraded',
      problem: 'upstream_disconnected',
      failures: OPEN_AFTER_FAILURES - 1,
    });
    breakOff(10);
    expect([circuit.allows(11), circuit.openUntilMs]).toEqual([false, 10 + CIRCUIT_OPEN_MS]);
    breakOff(circuit.openUntilMs);
    expect(circuit.openUntilMs).toBe(10 + 2 * CIRCUIT_OPEN_MS);
    circuit.succeeded();
    breakOff(0);
    expect([circuit.allows(0), circuit.status(0).failures]).toEqual([true, 1]);
  });

  test('opens for as long as the upstream asks, and for the longest of several', () => {
    const circuit = new CircuitBreaker();
    fail(circuit, 0, 1_000);
    fail(circuit, 10, 30_000);
    fail(circuit, 20, 500);
    expect([circuit.openUntilMs, circuit.allows(30_009), circuit.allows(30_010)]).toEqual([
      30_010,
      false,
      true,
    ]);
  });
});

test('in any order of events: counts calls, allows one trial at most, and closes by an answer', () => {
  const step = fc.record({
    what: fc.constantFrom('begin', 'end', 'fail', 'answer'),
    which: fc.nat(9),
    passMs: fc.nat(20_000),
    openForMs: fc.option(fc.nat(60_000)),
  });
  let trials = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const circuit = new CircuitBreaker();
      /** When each call began that runs; each at a moment of its own. */
      const running: number[] = [];
      let [nowMs, trialMs] = [0, null as number | null];
      for (const { what, which, passMs, openForMs } of steps) {
        nowMs += passMs + 1;
        const wasAllowed = circuit.allows(nowMs);
        if (what === 'begin') {
          // Only where it is allowed, as dispatch does while another target is.
          if (!wasAllowed) continue;
          if (circuit.status(nowMs).state === 'half_open') {
            expect(trialMs).toBeNull();
            trialMs = nowMs;
            trials++;
          }
          circuit.began(nowMs);
          running.push(nowMs);
        } else {
          const [beganMs] = running.splice(which % Math.max(running.length, 1), 1);
          if (beganMs === undefined) continue;
          if (what === 'answer') {
            circuit.succeeded();
            expect(circuit.allows(nowMs)).toBe(true);
            trialMs = null;
          }
          circuit.ended(beganMs);
          if (beganMs === trialMs) trialMs = null;
          if (what === 'fail') circuit.failed(beganMs, nowMs, 'cut', openForMs);
        }
        expect(circuit.running).toBe(running.length);
        expect(circuit.openUntilMs - nowMs).toBeLessThanOrEqual(CIRCUIT_OPEN_MAX_MS);
      }
    }),
    { numRuns: 500 },
  );
  expect(trials).toBeGreaterThan(100);
});

import { describe, expect, test } from 'vitest';
import { alertLine } from '#db/alerts/alert-line.ts';
import { sinkAlert, type SinkFigures } from '#db/alerts/sink-alerts.ts';

describe('the alert of a sink', () => {
  const MINUTE_MS = 60_000;
  const sink = (changes: Partial<SinkFigures> = {}): SinkFigures => ({
    id: 'SinkSink',
    name: 'billing',
    kind: 'webhook',
    paused_at: null,
    failures: 0,
    fault: null,
    behind: 0,
    behind_ms: 0,
    ...changes,
  });
  const stateOf = (changes: Partial<SinkFigures>, last: number): string | null =>
    sinkAlert(sink(changes), last)?.state ?? null;

  test.each([
    ['four failures in a row', { failures: 4, fault: 'http_503', behind: 9, behind_ms: 30_000 }, null],
    ['five failures in a row', { failures: 5, fault: 'http_503', behind: 9, behind_ms: 30_000 }, 'raised'],
    ['an event that is nearly five minutes old', { behind: 1, behind_ms: 5 * MINUTE_MS - 1 }, null],
    [
      'an event that is five minutes old, without a failure',
      { behind: 1, behind_ms: 5 * MINUTE_MS },
      'raised',
    ],
    ['a pause', { paused_at: new Date(), failures: 9, behind: 1, behind_ms: 9 * MINUTE_MS }, null],
  ] as const)('for %s is: %s', (_, changes, state) => {
    expect(stateOf(changes, 0)).toBe(state);
  });

  test('recovers when a delivery succeeded and the oldest event is at most a minute old', () => {
    expect(stateOf({ failures: 1, behind: 1, behind_ms: 1_000 }, 1)).toBeNull();
    expect(stateOf({ behind: 5_000, behind_ms: 40 * MINUTE_MS }, 1)).toBeNull();
    expect(stateOf({ behind: 5, behind_ms: MINUTE_MS }, 1)).toBe('recovered');
    expect(stateOf({ failures: 7 }, 2)).toBe('raised');
  });

  test('names the sink, the fault and the lag', () => {
    const format = {
      count: String,
      cost: String,
      duration: (ms: number) => `${ms} ms`,
      time: (at: string) => at,
    };
    const lineOf = (changes: Partial<SinkFigures>, last = 0): string => {
      const alert = sinkAlert(sink(changes), last);
      return alert === null ? '' : alertLine(alert, format);
    };
    expect(lineOf({ failures: 6, fault: 'ECONNREFUSED', behind: 12, behind_ms: 90_000 })).toBe(
      'Sink billing is failing: 6 failed deliveries in a row (ECONNREFUSED), ' +
        '12 events behind, the oldest 90000 ms old.',
    );
    expect(lineOf({ behind: 12, behind_ms: 300_000 })).toBe(
      'Sink billing is too slow: 12 events behind, the oldest 300000 ms old.',
    );
    expect(lineOf({}, 1)).toBe('Sink billing recovered; all events are delivered.');
  });
});

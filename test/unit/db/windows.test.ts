import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { WINDOW_KINDS, type WindowKind } from '#db/limits/limits.ts';
import { minuteOf, windowEnd, windowStart } from '#db/limits/windows.ts';

const KINDS = (Object.keys(WINDOW_KINDS) as WindowKind[]).filter(
  (kind) => kind !== 'none' && kind !== 'lifetime',
);
const kinds = fc.constantFrom(...KINDS);
/** Minutes from 1970 to 2100. */
const minutes = fc.nat(68_000_000);
const at = (text: string): number => minuteOf(Date.parse(text));

test('every minute lies in its window', () => {
  fc.assert(
    fc.property(kinds, minutes, (kind, minute) => {
      const start = windowStart(kind, minute);
      expect(start <= minute && minute < windowEnd(kind, start)).toBe(true);
    }),
  );
});

test('windows follow one another without gap or overlap, and all minutes of one have the same start', () => {
  fc.assert(
    fc.property(kinds, minutes, (kind, minute) => {
      const start = windowStart(kind, minute);
      const end = windowEnd(kind, start);
      expect([windowStart(kind, start), windowStart(kind, end - 1), windowStart(kind, end)]).toEqual([
        start,
        start,
        end,
      ]);
      if (start > 0) expect(windowEnd(kind, windowStart(kind, start - 1))).toBe(start);
    }),
  );
});

test('what runs at once has a window that never ends', () => {
  fc.assert(
    fc.property(minutes, (minute) => {
      expect([windowStart('none', minute), windowStart('lifetime', minute)]).toEqual([0, 0]);
    }),
  );
  expect([windowEnd('none', 0), windowEnd('lifetime', 0)]).toEqual([Infinity, Infinity]);
});

describe('windows are those of the UTC calendar', () => {
  test.each([
    ['minute', '2026-11-21T05:06:59Z', '2026-11-21T05:06Z', '2026-11-21T05:07Z'],
    ['hour', '2026-11-21T05:59Z', '2026-11-21T05:00Z', '2026-11-21T06:00Z'],
    ['day', '2026-12-31T23:59Z', '2026-12-31T00:00Z', '2027-01-01T00:00Z'],
    ['week', '2026-11-22T23:59Z', '2026-11-16T00:00Z', '2026-11-23T00:00Z'],
    ['week', '2027-01-01T00:00Z', '2026-12-28T00:00Z', '2027-01-04T00:00Z'],
    ['month', '2028-02-29T23:59Z', '2028-02-01T00:00Z', '2028-03-01T00:00Z'],
    ['month', '2026-12-31T23:59Z', '2026-12-01T00:00Z', '2027-01-01T00:00Z'],
  ] as const)('%s of %s', (kind, moment, start, end) => {
    expect(windowStart(kind, at(moment))).toBe(at(start));
    expect(windowEnd(kind, at(start))).toBe(at(end));
  });
});

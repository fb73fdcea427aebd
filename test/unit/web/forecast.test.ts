import { beforeEach, expect, test } from 'vitest';
import { forecastLine } from '../../../web/lib/format/forecast.ts';
import { setLocale } from '../../../web/lib/format/show.ts';

beforeEach(() => setLocale('en-US'));

const MONTH = {
  meter: 'cost_nanousd',
  window: 'month',
  used: 24_000_000_000,
  resets_at: '2026-12-01T00:00:00.000Z',
} as const;
const PROJECTION = {
  projected: 36_000_000_000,
  low: 33_000_000_000,
  high: 40_000_000_000,
  exhausted_at: '2026-11-27T10:00:00.000Z',
};
const NOW_MS = Date.parse('2026-11-20T00:00:00Z');

test('a forecast is one sentence with run rate, last day of the window, range and time of the limit', () => {
  const line = forecastLine(MONTH, { run_rate: 1_200_000_000, projection: PROJECTION }, NOW_MS, 'utc');
  expect(line).toEqual({
    isOver: true,
    text:
      '$1.20 a day so far, $36.00 projected by Nov 30 (80% range $33.00 to $40.00), ' +
      'limit reached on Nov 27.',
  });
});

test('within its limit a forecast names no time, and without a projection there is no sentence', () => {
  const within = { run_rate: 1_200_000_000, projection: { ...PROJECTION, exhausted_at: null } };
  const line = forecastLine(MONTH, within, NOW_MS, 'utc');
  expect(line?.isOver).toBe(false);
  expect(line?.text).toMatch(/\$40\.00\)\.$/);
  expect(forecastLine(MONTH, { run_rate: 0, projection: null }, NOW_MS, 'utc')).toBeNull();
});

test('within the first day of a window the sentence has the usage so far instead of a rate', () => {
  const used = 300_000_000;
  const day = { ...MONTH, window: 'day', used, resets_at: '2026-11-21T00:00:00.000Z' } as const;
  const forecast = {
    run_rate: 1_200_000_000,
    projection: { projected: 1_100_000_000, low: 900_000_000, high: 1_300_000_000, exhausted_at: null },
  };
  const atSixMs = Date.parse('2026-11-20T06:00:00Z');
  expect(forecastLine(day, forecast, atSixMs, 'utc')?.text).toBe(
    '$0.30 so far, $1.10 projected by the reset (80% range $0.90 to $1.30).',
  );
  const atOnceMs = Date.parse('2026-11-01T06:00:00Z');
  expect(forecastLine({ ...MONTH, used }, forecast, atOnceMs, 'utc')?.text).toMatch(/^\$0\.30 so far, /);
});

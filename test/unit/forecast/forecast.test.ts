import { describe, expect, test } from 'vitest';
import { type BucketUnit, type ForecastInput, project, runRate, UNIT_MS } from '#db/forecast/forecast.ts';
import { type Course, daysOf, randomOf, seriesOf } from '../../support/seeded-series.ts';

/** A Monday. */
const START_MS = Date.UTC(2026, 0, 5);
const DOLLAR = 1_000_000_000;
const sumOf = (values: readonly number[]): number => values.reduce((sum, each) => sum + each, 0);

/** A window within a series: what is known at a point of it, and its true end. */
function windowOf(
  unit: BucketUnit,
  values: readonly number[],
  { begin, at, length, kept }: { begin: number; at: number; length: number; kept: number },
): { input: ForecastInput; actual: number } {
  const ms = (bucket: number): number => START_MS + bucket * UNIT_MS[unit];
  return {
    input: {
      unit,
      history: values.slice(Math.max(0, at - kept), at),
      used: sumOf(values.slice(begin, at)),
      limit: Number.MAX_SAFE_INTEGER,
      startMs: ms(begin),
      endMs: ms(begin + length),
      nowMs: ms(at),
    },
    actual: sumOf(values.slice(begin, begin + length)),
  };
}

/** Months of days after eight weeks of history, and days of hours after the same. */
function windows(unit: BucketUnit, course: Course) {
  return Array.from({ length: 200 }, (_, seed) => {
    const { uniform } = randomOf(seed + 50_000);
    const hours = seriesOf(course, seed + 1, 24 * 112, DOLLAR);
    if (unit === 'day') {
      const begin = 56 + Math.floor(uniform() * 20);
      const at = begin + 3 + Math.floor(uniform() * 20);
      return windowOf(unit, daysOf(hours), { begin, at, length: 30, kept: 56 });
    }
    const begin = 24 * (57 + Math.floor(uniform() * 20));
    return windowOf(unit, hours, {
      begin,
      at: begin + 3 + Math.floor(uniform() * 18),
      length: 24,
      kept: 1_344,
    });
  });
}

describe.each([
  ['day', 'steady', 0.05],
  ['day', 'daily', 0.05],
  ['day', 'office_hours', 0.05],
  ['day', 'growing', 0.2],
  ['day', 'sporadic', 0.15],
  ['hour', 'steady', 0.05],
  ['hour', 'daily', 0.05],
  ['hour', 'office_hours', 0.15],
  ['hour', 'growing', 0.15],
] as const)('by %s, %s usage', (unit, course, errorMax) => {
  const forecasts = windows(unit, course).map(({ input, actual }) => ({ forecast: project(input), actual }));

  test('ends within the range in at least 70 of 100 windows', () => {
    const within = forecasts.filter(
      ({ forecast, actual }) => forecast !== null && actual >= forecast.low && actual <= forecast.high,
    );
    expect(within.length / forecasts.length).toBeGreaterThanOrEqual(0.7);
  });

  test('is projected with a small median error, and a range around the projection', () => {
    const errors = forecasts
      .map(({ forecast, actual }) => Math.abs((forecast?.projected ?? 0) - actual) / actual)
      .toSorted((one, other) => one - other);
    expect(errors[errors.length >> 1]).toBeLessThan(errorMax);
    for (const { forecast } of forecasts) {
      expect(forecast?.low).toBeLessThanOrEqual(forecast?.projected as number);
      expect(forecast?.high).toBeGreaterThanOrEqual(forecast?.projected as number);
    }
  });
});

/** A dollar each day; ten of thirty days are over. */
const EVEN: ForecastInput = {
  unit: 'day',
  history: Array.from({ length: 56 }, () => DOLLAR),
  used: 10 * DOLLAR,
  limit: 20 * DOLLAR,
  startMs: START_MS,
  endMs: START_MS + 30 * UNIT_MS.day,
  nowMs: START_MS + 10 * UNIT_MS.day,
};

test('even usage is projected to the unit, with the time at which the limit is reached', () => {
  expect(project(EVEN)).toEqual({
    projected: 30 * DOLLAR,
    low: 30 * DOLLAR,
    high: 30 * DOLLAR,
    exhausted_at: new Date(START_MS + 20 * UNIT_MS.day).toISOString(),
  });
  expect(project({ ...EVEN, limit: 30 * DOLLAR + 1 })?.exhausted_at).toBeNull();
  expect(project({ ...EVEN, used: 20 * DOLLAR })?.exhausted_at).toBe(new Date(EVEN.nowMs).toISOString());
});

test('of the current day only the rest is expected', () => {
  const noon = { ...EVEN, nowMs: EVEN.nowMs + UNIT_MS.day / 2, used: 10.5 * DOLLAR };
  expect(project(noon)?.projected).toBe(30 * DOLLAR);
});

test('a weekday pattern decides the day on which the limit is reached', () => {
  const history = Array.from({ length: 56 }, (_, day) => (day % 7 < 5 ? DOLLAR : 0));
  // After a Friday: the weekend uses nothing, and Monday what is left.
  const friday = { ...EVEN, history: [...history.slice(5), ...history.slice(0, 5)], used: 5 * DOLLAR };
  const nowMs = START_MS + 5 * UNIT_MS.day;
  expect(project({ ...friday, nowMs, limit: 6 * DOLLAR })?.exhausted_at).toBe(
    new Date(START_MS + 8 * UNIT_MS.day).toISOString(),
  );
});

test('without enough history, or without usage in it, there is no projection', () => {
  const days = (count: number) => project({ ...EVEN, history: EVEN.history.slice(0, count) });
  expect(days(11)).toBeNull();
  expect(days(12)?.projected).toBe(30 * DOLLAR);
  expect(project({ ...EVEN, history: EVEN.history.map(() => 0) })).toBeNull();
});

test('the run rate is the usage of a day since the window began', () => {
  expect(runRate(EVEN)).toBe(DOLLAR);
  expect(runRate({ ...EVEN, nowMs: EVEN.startMs })).toBe(10 * DOLLAR * 1_440);
});

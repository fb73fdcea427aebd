import { describe, expect, test } from 'vitest';
import { FLOORS, HISTORY_HOURS_MAX, judgeHour } from '#db/forecast/anomaly.ts';
import { runs } from '../../fuzz/property-runs.ts';
import { type Course, COURSE_NAMES, seriesOf, usualOf } from '../../support/seeded-series.ts';

/** A usual hour of the series is ten dollars, so that the floor of a dollar decides little. */
const SCALE = 10 * FLOORS.cost_nanousd;
const SEEDS = runs(4).numRuns;
const WEEKS = 6;
const HOURS = WEEKS * 168;

const judge = (series: readonly number[], at: number, used = series[at] as number) =>
  judgeHour('cost_nanousd', used, series.slice(Math.max(0, at - HISTORY_HOURS_MAX), at));

describe.each(COURSE_NAMES)('%s usage', (course) => {
  test('raises no alert in quiet weeks', () => {
    let alerts = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const series = seriesOf(course, seed, HOURS, SCALE);
      for (let at = 168; at < HOURS; at++) if (judge(series, at) !== null) alerts++;
    }
    expect(alerts).toBe(0);
  });

  test('raises an alert for at least 95 of 100 planted jumps', () => {
    let found = 0;
    const jumps = plantedJumps(course);
    for (const { series, at, used } of jumps) if (judge(series, at, used) !== null) found++;
    expect(found / jumps.length).toBeGreaterThanOrEqual(0.95);
  });
});

/** On each seed an hour with usage of the last week, with twenty times what is usual then. */
function plantedJumps(course: Course) {
  return Array.from({ length: 100 }, (_, seed) => {
    const series = seriesOf(course, 1_000 + seed, HOURS, SCALE);
    const last = series.slice(-168).flatMap((used, index) => (used > 0 ? [HOURS - 168 + index] : []));
    const at = last[(seed * 37) % last.length] ?? HOURS - 1;
    return { series, at, used: 20 * usualOf(course, at, SCALE) };
  });
}

const STEADY = seriesOf('steady', 7, HOURS, SCALE);

test('a lasting jump raises one alert, in its first hour', () => {
  const series = [...STEADY.slice(0, -12), ...STEADY.slice(-12).map((used) => 20 * used)];
  const alerts = Array.from({ length: 24 }, (_, index) => HOURS - 24 + index).filter(
    (at) => judge(series, at) !== null,
  );
  expect(alerts).toEqual([HOURS - 12]);
});

test('an alert has the usual usage of such an hour', () => {
  const { usual } = judge(STEADY, HOURS - 1, 30 * SCALE) as { usual: number };
  expect(usual / SCALE).toBeGreaterThan(0.7);
  expect(usual / SCALE).toBeLessThan(1.4);
});

test('a subject younger than a week raises none', () => {
  expect(judgeHour('cost_nanousd', 100 * SCALE, STEADY.slice(0, 167))).toBeNull();
  expect(judgeHour('cost_nanousd', 100 * SCALE, STEADY.slice(0, 168))).not.toBeNull();
});

test('a subject with few hours of use raises none', () => {
  const used = (hours: number): number[] =>
    Array.from({ length: 400 }, (_, hour) => (hour % 40 === 7 && hour < hours * 40 ? SCALE : 0));
  expect(judgeHour('cost_nanousd', 100 * SCALE, used(7))).toBeNull();
  expect(judgeHour('cost_nanousd', 100 * SCALE, used(8))).not.toBeNull();
});

test('usage below the floor raises none, however unusual', () => {
  const tiny = STEADY.map((used) => used / 10_000);
  expect(judgeHour('cost_nanousd', FLOORS.cost_nanousd - 1, tiny)).toBeNull();
  expect(judgeHour('cost_nanousd', FLOORS.cost_nanousd, tiny)).not.toBeNull();
});

test('a fall raises none', () => {
  expect(judge(STEADY, HOURS - 1, FLOORS.cost_nanousd)).toBeNull();
});

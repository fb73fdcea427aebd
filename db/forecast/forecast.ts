/**
 * Forecasts the usage of a budget at the end of its window. Pure.
 *
 * Method: damped seasonal naive. A bucket (an hour or a day) is expected to be the mean of the same bucket of
 * the last seasons, times a level: the last season relative to those, halfway to 1. The season is a week, or
 * without two weeks of history a day. The range is empirical: the same method is run from each earlier point
 * of the history, and the 10 % and 90 % quantiles of actual to expected usage, widened, are applied to the
 * expectation, so that the end lies within it in about 80 of 100 windows. Without enough history there is no
 * projection: a wild figure is worse than none.
 */

export type BucketUnit = 'hour' | 'day';
export const UNIT_MS: Readonly<Record<BucketUnit, number>> = { hour: 3_600_000, day: 86_400_000 };

/** Buckets of a season, and how many seasons are averaged. */
type Season = { length: number; mean: number };
const SEASONS: Readonly<Record<BucketUnit, { week: Season; day: Season }>> = {
  hour: { week: { length: 168, mean: 4 }, day: { length: 24, mean: 4 } },
  day: { week: { length: 7, mean: 4 }, day: { length: 1, mean: 7 } },
};
/** Seasons before the earliest of the forecasts that a range is made of. */
const SEASONS_MIN = 2;
/** Earlier forecasts that a range needs. */
const ERRORS_MIN = 10;
/** Earlier forecasts that a range is made of, evenly spread: more cost time and change little. */
const ERRORS_MAX = 60;
const QUANTILE = 0.1;
/** Earlier forecasts overlap, and so differ less than independent ones would. */
const WIDENING = 1.4;
/** The level of the last season is believed by this much. */
const DAMPING = 0.5;
const LEVEL_MAX = 3;

export type ForecastInput = {
  unit: BucketUnit;
  /** Usage of complete buckets up to the current one, the oldest first. */
  history: readonly number[];
  /** Usage of the window so far, and its limit. */
  used: number;
  limit: number;
  /** The window, in milliseconds since 1970. */
  startMs: number;
  endMs: number;
  nowMs: number;
};

/** The usage at the end of a window. */
export type Projection = {
  projected: number;
  /** Its 80 % range. */
  low: number;
  high: number;
  /** When the limit is expected to be reached, in ISO 8601; null: not within the window. */
  exhausted_at: string | null;
};

/** @returns null where the history is too short, or without usage. */
export function project({ unit, history, used, limit, endMs, nowMs }: ForecastInput): Projection | null {
  const season = seasonOf(unit, history.length);
  if (season === null || history.every((each) => each <= 0)) return null;
  const unitMs = UNIT_MS[unit];
  const bucketMs = Math.floor(nowMs / unitMs) * unitMs;
  const buckets = Math.max(1, Math.ceil((endMs - bucketMs) / unitMs));
  const expected = expectedBuckets(history, season, buckets);
  // The rest of the current bucket, as far as it is not over.
  expected[0] = (expected[0] as number) * (1 - (nowMs - bucketMs) / unitMs);
  const rest = sumOf(expected);
  const [low, high] = errorRange(history, season, buckets);
  return {
    projected: Math.round(used + rest),
    low: Math.round(used + rest * Math.min(low, 1)),
    high: Math.round(used + rest * Math.max(high, 1)),
    exhausted_at: exhaustedAt(expected, limit - used, { nowMs, bucketMs, unitMs, endMs }),
  };
}

/** Usage a day since the window began, in whole units; the first minute counts as one. */
export function runRate({ used, startMs, nowMs }: Pick<ForecastInput, 'used' | 'startMs' | 'nowMs'>): number {
  return Math.round((used * UNIT_MS.day) / Math.max(nowMs - startMs, 60_000));
}

/** The longest season that a history of so many buckets has, with enough earlier forecasts; or null. */
function seasonOf(unit: BucketUnit, buckets: number): Season | null {
  const { week, day } = SEASONS[unit];
  return [week, day].find(({ length }) => buckets >= SEASONS_MIN * length + ERRORS_MIN) ?? null;
}

/** The expected usage of the next buckets after a history. */
function expectedBuckets(history: readonly number[], { length, mean }: Season, buckets: number): number[] {
  const end = history.length;
  const seasons = Math.min(mean, Math.floor(end / length));
  const average = sumOf(history.slice(end - seasons * length)) / seasons;
  const last = sumOf(history.slice(end - length));
  const level = average <= 0 ? 1 : 1 + (Math.min(last / average, LEVEL_MAX) - 1) * DAMPING;
  const phases = Array.from({ length }, (_, index) => {
    let sum = 0;
    for (let back = 1; back <= seasons; back++) sum += history[end - back * length + index] as number;
    return Math.max(0, (sum / seasons) * level);
  });
  return Array.from({ length: buckets }, (_, index) => phases[index % length] as number);
}

/** Quantiles of actual to expected usage, from forecasts of this length at earlier points of the history. */
function errorRange(
  history: readonly number[],
  season: Season,
  buckets: number,
): [low: number, high: number] {
  const first = SEASONS_MIN * season.length;
  // A long window is judged by shorter ones where the history is short.
  const length = Math.min(buckets, history.length - first - ERRORS_MIN + 1);
  const last = history.length - length;
  const step = Math.max(1, Math.floor((last - first + 1) / ERRORS_MAX));
  const ratios: number[] = [];
  for (let at = last; at >= first; at -= step) {
    const expected = sumOf(expectedBuckets(history.slice(0, at), season, length));
    if (expected > 0) ratios.push(sumOf(history.slice(at, at + length)) / expected);
  }
  if (ratios.length < ERRORS_MIN) return [0, LEVEL_MAX];
  ratios.sort((one, other) => one - other);
  // One rank further out than the plain quantile, since the sample is small.
  const rank = Math.max(0, Math.floor(ratios.length * QUANTILE) - 1);
  const wider = (ratio: number): number => Math.max(0, 1 + (ratio - 1) * WIDENING);
  return [wider(ratios[rank] as number), wider(ratios[ratios.length - 1 - rank] as number)];
}

const sumOf = (values: readonly number[]): number => values.reduce((sum, each) => sum + each, 0);

function exhaustedAt(
  expected: readonly number[],
  free: number,
  { nowMs, bucketMs, unitMs, endMs }: { nowMs: number; bucketMs: number; unitMs: number; endMs: number },
): string | null {
  if (free <= 0) return new Date(nowMs).toISOString();
  let left = free;
  for (const [index, amount] of expected.entries()) {
    const fromMs = Math.max(nowMs, bucketMs + index * unitMs);
    const toMs = bucketMs + (index + 1) * unitMs;
    if (amount > 0 && amount >= left) {
      const atMs = fromMs + ((toMs - fromMs) * left) / amount;
      return atMs < endMs ? new Date(Math.round(atMs)).toISOString() : null;
    }
    left -= amount;
  }
  return null;
}

/**
 * Decides whether the usage of one hour leaves a subject's own history. Pure.
 *
 * Usage is compared by ln(1 + 10 × usage / floor), since it varies by factors and small amounts don't matter.
 * The residual of an hour is its distance from its center: the median of the same hour of the week in the
 * other weeks, or of those and the hours beside them, whichever is larger; with less than two weeks of
 * history, of the hour of the day on the other days. Idle hours don't count. Where more than a third of them
 * are idle, the center is the median of all hours with usage, so that the hours of a sparse subject are
 * compared with one another. If the last week is above the mean of the weeks, the center is raised by that
 * factor: growth is no anomaly.
 *
 * The hour is unusual when all of these hold:
 * - it uses at least {@link FLOORS}, and the history has {@link HISTORY_HOURS_MIN} and at least
 *   {@link ACTIVE_HOURS_MIN} with usage;
 * - its residual is at least {@link Z_MIN} robust deviations (1.4826 × MAD of the history's residuals);
 * - its residual exceeds every one of the history by a factor of at least {@link JUMP} in usage.
 *
 * The last rule also keeps a lasting jump from being reported hour after hour. The running hour is judged by
 * its usage so far, which only grows. Falls are not reported.
 */

export const ANOMALY_METERS = ['cost_nanousd', 'tokens'] as const;
export type AnomalyMeter = (typeof ANOMALY_METERS)[number];

/** A dollar, or a hundred thousand tokens, in an hour. */
export const FLOORS: Readonly<Record<AnomalyMeter, number>> = {
  cost_nanousd: 1_000_000_000,
  tokens: 100_000,
};
const JUMP = 2;
const Z_MIN = 4;
/** Of the robust deviation: a history without any variation must not make every hour unusual. */
const DEVIATION_MIN = 0.15;
const DAY_HOURS = 24;
const WEEK_HOURS = 168;
/** Each weekday once. */
const HISTORY_HOURS_MIN = WEEK_HOURS;
const ACTIVE_HOURS_MIN = 8;
const LEVEL_MAX = 3;
/** Hours of history that the method looks at. */
export const HISTORY_HOURS_MAX = 4 * WEEK_HOURS;

/**
 * @param used by the hour that is judged.
 * @param history usage of the hours before it since the subject's first use, the oldest first.
 * @returns the usual usage of such an hour where this one is unusual; otherwise null.
 */
export function judgeHour(
  meter: AnomalyMeter,
  used: number,
  history: readonly number[],
): { usual: number } | null {
  const floor = FLOORS[meter];
  if (used < floor || history.length < HISTORY_HOURS_MIN) return null;
  const hours = history.slice(-HISTORY_HOURS_MAX);
  const scores = hours.map((usage) => scoreOf(usage, floor));
  const active = scores.filter((score) => score > 0);
  if (active.length < ACTIVE_HOURS_MIN) return null;
  const activeMedian = median(active);
  const centerOf = (at: number): number =>
    Math.max(...[0, 1].map((beside) => activeCenter(sameHours(scores, at, beside)))) || activeMedian;
  const usual = usageOf(centerOf(hours.length), floor) * levelOf(hours);
  const residual = scoreOf(used, floor) - scoreOf(usual, floor);
  // Nearly all hours end here, before the history is looked at hour by hour.
  if (residual < Math.max(Z_MIN * DEVIATION_MIN, Math.log(JUMP))) return null;
  const residuals = scores.flatMap((score, at) => (score > 0 ? [score - centerOf(at)] : []));
  const middle = median(residuals);
  const deviation = 1.4826 * median(residuals.map((each) => Math.abs(each - middle)));
  const isFar = residual >= Z_MIN * Math.max(deviation, DEVIATION_MIN);
  const isNew = residual >= Math.max(...residuals) + Math.log(JUMP);
  return isFar && isNew ? { usual: Math.round(usual) } : null;
}

const scoreOf = (usage: number, floor: number): number => Math.log1p((10 * Math.max(0, usage)) / floor);
const usageOf = (score: number, floor: number): number => (Math.expm1(score) * floor) / 10;

/** The scores of the hours that an hour is compared with: none of its own day or week. */
function sameHours(scores: readonly number[], at: number, beside: number): number[] {
  const season = scores.length >= 2 * WEEK_HOURS ? WEEK_HOURS : DAY_HOURS;
  const same: number[] = [];
  for (let hour = at % season; hour < scores.length + beside; hour += season) {
    if (hour === at) continue;
    for (let each = hour - beside; each <= hour + beside; each++) {
      const score = scores[each];
      if (score !== undefined) same.push(score);
    }
  }
  return same;
}

/** The median of those with usage; 0 where more than a third are idle. */
function activeCenter(scores: readonly number[]): number {
  const active = scores.filter((score) => score > 0);
  return active.length * 3 < scores.length * 2 ? 0 : median(active);
}

/** The last week relative to the mean of the weeks, where it is more. */
function levelOf(hours: readonly number[]): number {
  const weeks = hours.length / WEEK_HOURS;
  if (weeks < 2) return 1;
  const sumOf = (from: number): number => hours.slice(from).reduce((sum, each) => sum + each, 0);
  const mean = sumOf(0) / weeks;
  return mean <= 0 ? 1 : Math.min(Math.max(sumOf(-WEEK_HOURS) / mean, 1), LEVEL_MAX);
}

function median(values: readonly number[]): number {
  if (values.length === 0) return 0;
  const sorted = values.toSorted((one, other) => one - other);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] as number;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] as number) + upper) / 2;
}

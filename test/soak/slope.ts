/**
 * Slopes with confidence intervals. Samples of a process are not independent (memory saws between
 * collections) and have outliers, so the slope is Theil–Sen's: the median of the slopes of all pairs. Its
 * interval is Sen's, by the distribution of Kendall's statistic, widened by the autocorrelation of the
 * residuals.
 */

export type Point = { x: number; y: number };

/** A slope in units of y per unit of x, with the bounds of its 95 % confidence interval. */
export type Slope = { slope: number; low: number; high: number; level: number; count: number };

/** The 97.5 % quantile of the normal distribution: two-sided 95 %. */
const Z = 1.96;
/** With a larger lag-1 autocorrelation a few dozen samples say nothing. */
const AUTOCORRELATION_MAX = 0.9;
const POINTS_MIN = 8;

/**
 * The slope of a series, null when there are too few points for an interval. `level` is the median of y.
 * The cost is quadratic in the number of points: thin out long series by {@link blocks} first.
 */
export function slopeOf(points: readonly Point[]): Slope | null {
  const count = points.length;
  if (count < POINTS_MIN) return null;
  const slopes: number[] = [];
  for (const [index, one] of points.entries()) {
    for (const other of points.slice(index + 1)) {
      if (other.x !== one.x) slopes.push((other.y - one.y) / (other.x - one.x));
    }
  }
  if (slopes.length === 0) return null;
  slopes.sort((left, right) => left - right);
  const slope = median(slopes);
  const deviation = Math.sqrt((count * (count - 1) * (2 * count + 5)) / 18);
  const half = Z * deviation * Math.sqrt(inflation(points, slope));
  const at = (rank: number): number =>
    slopes[Math.min(slopes.length - 1, Math.max(0, Math.round(rank)))] as number;
  return {
    slope,
    low: at((slopes.length - half) / 2 - 1),
    high: at((slopes.length + half) / 2),
    level: median(points.map(({ y }) => y)),
    count,
  };
}

/** By how much the variance is larger than that of independent residuals. */
function inflation(points: readonly Point[], slope: number): number {
  const centre = median(points.map(({ x, y }) => y - slope * x));
  const residuals = points.map(({ x, y }) => y - slope * x - centre);
  const square = residuals.reduce((sum, each) => sum + each * each, 0);
  if (square === 0) return 1;
  const lagged = residuals
    .slice(1)
    .reduce((sum, each, index) => sum + each * (residuals[index] as number), 0);
  const correlation = Math.min(AUTOCORRELATION_MAX, Math.max(0, lagged / square));
  return (1 + correlation) / (1 - correlation);
}

/** Replaces each run of points within a width of x by one of their medians. */
export function blocks(points: readonly Point[], width: number): Point[] {
  const groups = Map.groupBy(points, ({ x }) => Math.floor(x / width));
  return [...groups.values()].map((group) => ({
    x: median(group.map(({ x }) => x)),
    y: median(group.map(({ y }) => y)),
  }));
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted.length / 2;
  const high = sorted[Math.floor(middle)] ?? NaN;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? NaN) + high) / 2 : high;
}

/**
 * Whether a series grows: its whole confidence interval is above zero, and the slope is more than a tolerated
 * part of the level. The second condition keeps a growth that is certain but tiny from being called a leak.
 */
export function isGrowing(
  { slope, low, level }: Slope,
  tolerated: { share: number; floor: number },
): boolean {
  return low > 0 && slope > Math.max(tolerated.floor, Math.abs(level) * tolerated.share);
}

import { describe, expect, it } from 'vitest';
import { randomFrom } from '../../chaos/random.ts';
import { blocks, isGrowing, type Point, type Slope, slopeOf } from '../../soak/slope.ts';

/** A made-up series of a process, in MB per hour: whether a leak is found, and none where there is none. */

const TOLERATED = { share: 0.05, floor: 1 };
const MINUTES = 25;

/** 200 MB that saws between collections, with outliers, and grows by so much an hour. */
function memory(seed: number, perHour: number, correlation = 0): Point[] {
  const random = randomFrom(seed);
  const unit = (): number => random.below(1_000_000) / 1_000_000;
  let noise = 0;
  return Array.from({ length: MINUTES * 12 }, (_, index) => {
    const hours = index / 720;
    noise = correlation * noise + (unit() + unit() + unit() - 1.5) * 8;
    const outlier = random.below(60) === 0 ? 150 : 0;
    return { x: hours, y: 200 + (index % 7) * 3 + noise + outlier + perHour * hours };
  });
}

const judge = (points: readonly Point[]): Slope => slopeOf(blocks(points, 1 / 60)) as Slope;
const shareGrowing = (make: (seed: number) => Point[], seeds: number): number =>
  Array.from({ length: seeds }, (_, seed) => isGrowing(judge(make(seed + 1)), TOLERATED)).filter(Boolean)
    .length / seeds;

describe('the slope of a series', () => {
  it('finds a made-up leak of 40 MB an hour in noise with outliers, and its size', () => {
    expect(shareGrowing((seed) => memory(seed, 40), 40)).toBe(1);
    const { low, high } = judge(memory(7, 40));
    expect(low).toBeLessThan(40);
    expect(high).toBeGreaterThan(40);
  });
  it('calls a flat series flat', () => {
    expect(shareGrowing((seed) => memory(seed, 0), 40)).toBe(0);
  });
  it('calls a wandering series without a trend flat, nearly always', () => {
    expect(shareGrowing((seed) => memory(seed, 0, 0.8), 40)).toBeLessThanOrEqual(0.1);
  });
  it('covers the true slope with its interval', () => {
    const covered = Array.from({ length: 100 }, (_, seed) => judge(memory(seed + 1, 20))).filter(
      ({ low, high }) => low <= 20 && high >= 20,
    );
    expect(covered.length).toBeGreaterThanOrEqual(90);
  });
  it('does not call a certain but tiny growth a leak', () => {
    const points = Array.from({ length: 60 }, (_, index) => ({ x: index / 60, y: 100 + index / 600 }));
    expect(slopeOf(points)?.low).toBeGreaterThan(0);
    expect(isGrowing(slopeOf(points) as Slope, TOLERATED)).toBe(false);
  });
  it('has none for a handful of points, and none for points at one place', () => {
    expect(slopeOf([{ x: 1, y: 1 }])).toBeNull();
    expect(slopeOf(Array.from({ length: 20 }, () => ({ x: 1, y: 1 })))).toBeNull();
  });
});

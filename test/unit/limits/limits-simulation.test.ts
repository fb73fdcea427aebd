import { expect, test } from 'vitest';
import { simulate } from '../../sim/world.ts';

/** The short form of `npm run sim`, which takes 100,000. */
const SCHEDULES = 400;

test('limits hold exactly and free units are never refused, over random crashes and delays', () => {
  const counts = { admitted: 0, atOnce: 0, short: 0, observed: 0, undecided: 0, abandoned: 0 };
  for (let seed = 1; seed <= SCHEDULES; seed++) {
    const outcomes = simulate(seed);
    expect(outcomes.violations, `seed ${seed}`).toEqual([]);
    for (const name of Object.keys(counts) as (keyof typeof counts)[]) counts[name] += outcomes[name];
  }
  // The schedules come to what they are about.
  for (const count of Object.values(counts)) expect(count).toBeGreaterThan(SCHEDULES / 200);
});

test.each([
  ['overdraw a soft limit by their replies, and by no more', 12_125],
  ['hold units of a window that began while they waited', 83_649],
])('calls that wait for an observed limit may %s', (_, seed) => {
  expect(simulate(seed).violations).toEqual([]);
});

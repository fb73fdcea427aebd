import { expect, test } from 'vitest';
import { playRouteFaults } from './play-faults.ts';

/** A share of `npm run fuzz -- faults`: each fault is played on one of the routes. */
test('faults of an upstream on streams of forms, speech and completions are settled once', async () => {
  const { calls, violations } = await playRouteFaults(4);
  expect(violations).toEqual([]);
  expect(calls).toBeGreaterThan(50);
});

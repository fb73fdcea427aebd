import { expect, test } from 'vitest';
import { playPairFaults } from '../support/protocols/pair-faults.ts';

/** A share of `npm run fuzz -- faults`, in which each pair sees some of the faults. */
test('clients of any protocol see the faults of an upstream as its own clients do', async () => {
  const { calls, violations } = await playPairFaults(6);
  expect(violations).toEqual([]);
  expect(calls).toBeGreaterThan(100);
});

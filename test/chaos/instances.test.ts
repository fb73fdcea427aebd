import { expect, test } from 'vitest';
import { freezeInstance } from './freeze-instance.ts';
import { killInstance } from './kill-instance.ts';

test(
  'killing one of three processes under load exceeds no quota, charges nothing twice and returns every lease',
  { timeout: 180_000 },
  async () => {
    const verdict = await killInstance({ n: 3, streams: 20, seed: 3 });
    expect(verdict.violations).toEqual([]);
    // The kills did hit calls in the middle.
    expect(verdict.abandoned).toBeGreaterThan(0);
  },
);

test(
  'one that is frozen under load and wakes spends and delivers nothing of what others have taken over',
  { timeout: 180_000 },
  async () => {
    const verdict = await freezeInstance({ n: 1, streams: 20, seed: 3, frozenMs: 8_000 });
    expect(verdict.violations).toEqual([]);
    expect(verdict.abandoned).toBeGreaterThan(0);
  },
);

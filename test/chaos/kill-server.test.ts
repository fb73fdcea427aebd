import { expect, test } from 'vitest';
import { killServer } from './kill-server.ts';

test(
  'a server killed under load loses no call, ends each once and charges what was used',
  { timeout: 240_000 },
  async () => {
    const verdict = await killServer({ kills: 2, streams: 10, seed: 3, workers: false });
    expect(verdict.violations).toEqual([]);
    // The kills did hit calls in the middle.
    expect(verdict.abandoned).toBeGreaterThan(0);
  },
);

import { expect, test } from 'vitest';
import { killProjector } from './kill-projector.ts';

test(
  'workers killed while they project leave tables that are as a replay of the log, and no call notices',
  { timeout: 120_000 },
  async () => {
    const verdict = await killProjector({ n: 3, streams: 4, seed: 5 });
    expect(verdict.violations).toEqual([]);
    expect(verdict.rows).toBeGreaterThan(verdict.calls);
  },
);

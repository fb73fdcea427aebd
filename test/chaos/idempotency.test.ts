import { expect, test } from 'vitest';
import { databaseGround } from './ground.ts';
import { idempotency } from './idempotency.ts';

test(
  'requests that are sent again while servers are killed reach the upstream once and are charged once',
  { timeout: 240_000 },
  async () => {
    await using ground = await databaseGround();
    const verdict = await idempotency(ground, { n: 150, streams: 8, seed: 5, killEveryMs: 2_500 });
    expect(verdict.violations).toEqual([]);
    expect(verdict.repeated).toBeGreaterThan(0);
    expect(verdict.aborted).toBeGreaterThan(0);
  },
);

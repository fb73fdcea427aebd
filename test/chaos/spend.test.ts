import { expect, test } from 'vitest';
import { clusterGround } from './ground.ts';
import { killSpend } from './spend.ts';

test(
  'a receiver that fails at random has each spend event once, through kills of worker, server and PostgreSQL',
  { timeout: 240_000 },
  async () => {
    await using ground = await clusterGround();
    const verdict = await killSpend(ground, { n: 4, seed: 7 });
    expect(verdict.violations).toEqual([]);
    expect(verdict.events).toBeGreaterThan(50);
    expect(verdict.kills).toEqual({ worker: 2, server: 1, postgres: 1 });
  },
);

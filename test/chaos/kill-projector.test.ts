import { expect, test } from 'vitest';
import { databaseGround } from './ground.ts';
import { killProjector } from './kill-projector.ts';

test('workers killed while they project leave tables equal to a replay, unnoticed by calls', async () => {
  await using ground = await databaseGround();
  const verdict = await killProjector(ground, { n: 2, streams: 2, seed: 5, batchCalls: 60 });
  expect(verdict.violations).toEqual([]);
  expect(verdict.rows).toBeGreaterThan(verdict.calls);
});

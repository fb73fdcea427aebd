import { expect, test } from 'vitest';
import { databaseGround } from '../chaos/ground.ts';
import { soak } from './soak.ts';

test('seconds of mixed calls with faults violate nothing and have a figure for each series', async () => {
  await using ground = await databaseGround();
  const verdict = await soak(ground, {
    secs: 3,
    warmupSecs: 1,
    sampleMs: 250,
    callers: 5,
    pauseMs: 30,
    keyChangeMs: 500,
    silenceMs: 1_500,
    workerRestartMs: 1_500,
    seed: 5,
  });
  // Whether a series grows takes minutes to say; a leak in a made-up one is found in slope.test.ts.
  expect(verdict.violations.filter(({ rule }) => rule !== 'P10')).toEqual([]);
  expect(verdict.keyChanges.made).toBeGreaterThan(0);
  expect(verdict.workerRestarts).toBeGreaterThan(0);
  expect(verdict.idle.upstreamConnections).toBeLessThan(50);
  for (const name of ['rss', 'descriptors', 'sockets', 'database sessions', 'table projection.request'])
    expect(verdict.judged.find((each) => each.name === name)).toMatchObject({
      level: expect.any(Number),
      max: expect.any(Number),
    });
  expect(verdict.samples).toBeGreaterThan(2);
  expect(verdict.judged.find(({ name }) => name === 'event loop stall')?.max).toBeGreaterThanOrEqual(0);
});

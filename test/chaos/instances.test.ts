import { beforeAll, expect, test } from 'vitest';
import { type FieldVerdict, runPhases } from './field.ts';
import { freezing } from './freeze-instance.ts';
import { databaseGround } from './ground.ts';
import { killing } from './kill-instance.ts';
import { randomFrom } from './random.ts';

let killed: FieldVerdict | undefined;
let frozen: FieldVerdict | undefined;

// Both on one field: its five processes cost more than either phase.
beforeAll(async () => {
  const random = randomFrom(3);
  await using ground = await databaseGround();
  [killed, frozen] = await runPhases(ground, { random, pace: 5 }, [
    killing(random, { n: 2, streams: 16 }),
    freezing(random, { n: 1, streams: 16, frozenMs: 1_000 }),
  ]);
}, 240_000);

test('a killed instance under load exceeds no quota, charges nothing twice and returns every lease', () => {
  expect(killed?.violations).toEqual([]);
  // The kills did hit calls in the middle.
  expect(killed?.abandoned).toBeGreaterThan(0);
});

test('a frozen instance that wakes spends and delivers nothing that the others have recovered', () => {
  expect(frozen?.violations).toEqual([]);
  expect(frozen?.abandoned).toBeGreaterThan(0);
});

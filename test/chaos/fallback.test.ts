import { expect, test } from 'vitest';
import { databaseGround } from './ground.ts';
import { fallback } from './fallback.ts';

test('calls of a killed upstream fall back; replies that had begun end with an in-band error', async () => {
  await using ground = await databaseGround();
  const { violations, fellBack, cut, byOther } = await fallback(ground, { n: 1, streams: 20, seed: 5 });
  expect(violations).toEqual([]);
  // The kill did hit calls in the middle, and others before they had begun.
  expect([cut > 0, fellBack > 0, byOther > fellBack]).toEqual([true, true, true]);
});

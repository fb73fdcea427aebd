import { expect, test } from 'vitest';
import { fallback } from './fallback.ts';

test('when an upstream is killed under load its calls go to the other one, but for those that had begun, which are told so', async () => {
  const { violations, fellBack, cut, byOther } = await fallback({ n: 1, streams: 40, seed: 5 });
  expect(violations).toEqual([]);
  // The kill did hit calls in the middle, and others before they had begun.
  expect([cut > 0, fellBack > 0, byOther > fellBack]).toEqual([true, true, true]);
});

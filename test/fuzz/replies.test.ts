import { expect, test } from 'vitest';
import { randomFrom } from '../chaos/random.ts';
import { run as json } from './json.ts';
import { run as sse } from './sse.ts';
import { fuzzUpstream } from './upstream.ts';

/** The short forms of `npm run fuzz`. */

test('random request bodies are read as JSON.parse reads them', async () => {
  const { violations, accepted } = await json(randomFrom(1), { ms: 1_000 });
  expect(violations).toEqual([]);
  expect(accepted).toBeGreaterThan(0);
});

test('random streams are read the same in any chunks, and leak nothing', async () => {
  const { violations, streams } = await sse(randomFrom(1), { ms: 1_000 });
  expect(violations).toEqual([]);
  expect(streams).toBeGreaterThan(0);
});

test('random replies of an upstream end each call once, and leak nothing', async () => {
  const { violations, calls } = await fuzzUpstream(randomFrom(1), 3_000, 'database');
  expect(violations).toEqual([]);
  expect(calls).toBeGreaterThan(0);
});

import { expect, test } from 'vitest';
import { randomFrom } from '../chaos/random.ts';
import { createDatabase } from '../support/database.ts';
import { fuzzFrames } from './frames.ts';
import { fuzzHttp } from './http.ts';
import { withTarget } from './target.ts';

test('random requests and frames of clients end each call, and leave nothing behind', async () => {
  await using database = await createDatabase();
  await withTarget(database, database.url, async (target) => {
    const http = await fuzzHttp(target, randomFrom(1), 2_000, 0);
    expect(http.violations).toEqual([]);
    expect(http.calls).toBeGreaterThan(0);
    const frames = await fuzzFrames(target, randomFrom(1), 1_500);
    expect(frames.violations).toEqual([]);
    expect(frames.opened).toBeGreaterThan(0);
  });
});

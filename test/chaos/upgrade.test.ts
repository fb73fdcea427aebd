import { expect, test } from 'vitest';
import { createDatabase } from '../support/database.ts';
import { makeTestDirectory, removeTestDirectory } from '../support/directory.ts';
import { upgrade } from './upgrade.ts';

test('a rolling upgrade to a next release, and back, fails no call', { timeout: 240_000 }, async () => {
  await using database = await createDatabase();
  const dataDir = await makeTestDirectory();
  // Long replies, so that each stop finds some open.
  const options = { calls: 4, streams: 4, worker: false, tokenMs: 100 };
  const verdict = await upgrade(database, database.url, dataDir, options);
  await removeTestDirectory(dataDir);
  expect(verdict.violations).toEqual([]);
  expect(Object.keys(verdict.statuses)).toEqual(['200']);
});

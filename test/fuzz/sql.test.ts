import { expect, test } from 'vitest';
import { randomFrom } from '../chaos/random.ts';
import { createDatabase } from '../support/database.ts';
import { fuzzSql } from './sql.ts';

test('random statements of outside logins stop no call and change nothing', async () => {
  await using database = await createDatabase();
  const report = await fuzzSql(database, randomFrom(1), 3_000);
  expect(report.violations).toEqual([]);
  expect(report.calls).toBeGreaterThan(0);
  expect(report.accepted).toBeGreaterThan(0);
});

import { afterAll, beforeAll, expect, test } from 'vitest';
import { readSecretUse, recordSecretUse } from '#db/secrets/secret-use.ts';
import { createDatabase, type TestDatabase } from '../support/database.ts';
import { connectAs } from '../support/log/log-writer.ts';

/** Which secrets of keys in rotation are in use, as servers write it down. */

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database?.[Symbol.asyncDispose]());

test('servers that report the same secrets concurrently do not deadlock', async () => {
  const [one, other] = await Promise.all([connectAs(database, 'relay'), connectAs(database, 'relay')]);
  try {
    const uses = Array.from({ length: 2_000 }, (_, number) => ({
      key: `Key${number}`,
      last4: 'aaaa',
      usedAt: new Date(),
    }));
    for (let round = 0; round < 5; round++)
      await Promise.all([recordSecretUse(one, uses), recordSecretUse(other, uses.toReversed())]);
    expect(await readSecretUse(one, ['Key7'])).toHaveLength(1);
  } finally {
    await Promise.all([one.end(), other.end()]);
  }
});

test('uses past their retention are deleted with the next report', async () => {
  const client = await connectAs(database, 'relay');
  const daysAgo = (days: number): Date => new Date(Date.now() - days * 86_400_000);
  try {
    await recordSecretUse(client, [
      { key: 'Longpast', last4: 'aaaa', usedAt: daysAgo(200) },
      { key: 'Recent01', last4: 'aaaa', usedAt: daysAgo(40) },
    ]);
    await recordSecretUse(client, [{ key: 'Another1', last4: 'aaaa', usedAt: new Date() }]);
    expect(
      (await readSecretUse(client, ['Longpast', 'Recent01', 'Another1'])).map(({ key }) => key).toSorted(),
    ).toEqual(['Another1', 'Recent01']);
  } finally {
    await client.end();
  }
});

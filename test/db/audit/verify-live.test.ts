import type { ClientBase } from 'pg';
import { expect, test } from 'vitest';
import { verifyDatabase } from '#db/audit/verify/database.ts';
import { createDatabase } from '../../support/database.ts';
import { accepted, connectAs, openLivingWriter, registered } from '../../support/log/log-writer.ts';

test('verify: events that are appended between its statements are no findings', async () => {
  await using database = await createDatabase();
  await using writer = await openLivingWriter(database);
  const register = (account: string): Promise<number> =>
    writer.control([{ event: registered(account), version: 1, claim: `account-name/${account}` }]);
  await register('Account1');
  await writer.append([accepted()]);
  const auditor = await connectAs(database, 'auditor');
  let asked = 0;
  // After each statement another call and another account are in the log.
  const busy = {
    query: async (...question: unknown[]) => {
      const answer = await (auditor.query as (...given: unknown[]) => Promise<unknown>).apply(
        auditor,
        question,
      );
      asked++;
      await writer.append([accepted()]);
      await register(`Acct${String(asked).padStart(4, '0')}`);
      return answer;
    },
  } as unknown as ClientBase;
  const { findings, head } = await verifyDatabase(busy);
  await auditor.end();
  expect(findings).toEqual([]);
  expect([asked > 5, head]).toEqual([true, 2]);
});

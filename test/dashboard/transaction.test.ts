import { expect, test } from 'vitest';
import { publicId } from '#db/ids.ts';
import { ControlSeat } from '#server/control-seat.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';
import { createLogger } from '#server/telemetry.ts';
import { createDatabase } from '../support/database.ts';

const registered = (name: string) => [
  { event: { type: 'account.registered' as const, account: publicId(), name, actor: 'member/Abcdefgh' }, version: 1, claim: `account-name/${name}` },
];

test('a process that freezes before it commits keeps nobody else from the log, and has changed nothing', async () => {
  await using database = await createDatabase();
  const [frozen, other] = [new ControlSeat(database, createLogger('silent')), new ControlSeat(database, createLogger('silent'))];
  const appended = Promise.withResolvers<void>();
  const thawed = Promise.withResolvers<void>();
  const changing = frozen.change('member/Abcdefgh', (control, client) =>
    inTransaction(client, async () => {
      await control.append(registered('frozen'));
      appended.resolve();
      await thawed.promise;
    }),
  );
  try {
    await appended.promise;
    const made = await other.change('member/Bbcdefgh', (control) => control.createAccount('other'));
    expect(made).toMatchObject({ name: 'other' });
    thawed.resolve();
    expect(await changing).toMatchObject({ code: 'store_unavailable' });
    // Nobody has the name.
    expect(await other.change('member/Bbcdefgh', (control) => control.createAccount('frozen'))).toMatchObject({ name: 'frozen' });
  } finally {
    thawed.resolve();
    await Promise.all([frozen.close(), other.close()]);
  }
});

import path from 'node:path';
import { closeClient, patient, type Store } from '#db/postgres/connect.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { db, rowOf } from '#db/schema/query.ts';
import { withControl } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { Config } from '#server/process/config.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { SecretFile } from '#server/secrets/secret-file.ts';

/** The account created on the first start, which the first administrator joins. */
export const FIRST_ACCOUNT = 'first';

/**
 * The key created on the first start. Its secret is stored nowhere but in `file`; null without a file.
 * `unplaced`: there was neither a terminal nor a file for it, so none was created.
 */
export type FirstKey = { account: string; secret: string; file: string | null };
export type FirstKeyOffer = FirstKey | 'unplaced' | null;

/**
 * Creates the first account and its key if there is no account, in one append. To be called when the server
 * listens, so that the key is not lost to a start that fails.
 * @param isShown whether the caller shows the secret to a person; otherwise it is written to a file.
 * @returns null if there was an account already, or another server was first.
 */
export async function offerFirstKey(
  opened: Store,
  config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_PEPPER_FILE'>,
  isShown: boolean,
): Promise<FirstKeyOffer> {
  const store = patient(opened);
  const client = await connectRelay(store);
  let pepper: Buffer;
  try {
    const accounts = db
      .selectFrom('daybook.stream_head')
      .select('stream')
      .where('stream', 'like', 'account/%');
    if ((await rowOf(client, accounts.limit(1))) !== undefined) return null;
    pepper = await loadPepper(client, config);
  } finally {
    await closeClient(client);
  }
  const file = isShown ? null : SecretFile.open(path.join(config.DAYBOOK_DATA, 'first-key.txt'));
  if (!isShown && file === null) return 'unplaced';
  try {
    const secret = await withControl(store, 'first-start', (control) =>
      control.createAccountWithKey(pepper, {
        account: FIRST_ACCOUNT,
        key: 'first key',
        keep: (issued) => file?.write(issued),
      }),
    );
    file?.publish();
    return { account: FIRST_ACCOUNT, secret, file: file?.path ?? null };
  } catch (error) {
    // Otherwise the append may have succeeded without a reply: the secret stays in the draft.
    if (!(error instanceof DecisionError && error.code === 'already_exists')) throw error;
    file?.discard();
    return null;
  }
}

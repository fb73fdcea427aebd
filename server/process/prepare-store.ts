import type { Client } from 'pg';
import { closeClient, patient, type Store } from '#db/postgres/connect.ts';
import { makePartitions, PARTITIONS_TIMEOUT_MS } from '#db/log/partitions.ts';
import { migrate } from '#db/schema/migrate.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { readLogState, requireConsistent } from '#db/tlog/log-state.ts';
import type { Config } from '#server/process/config.ts';
import { withControl } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { loadPepper } from '#server/secrets/pepper.ts';

/** The key of the very first start. Its secret is nowhere else. */
export type FirstKey = { account: string; secret: string };

/** The account of the very first start, which the first administrator joins. */
export const FIRST_ACCOUNT = 'first';

/**
 * What is done once before servers run on a store, however many they are: its schema, the log's
 * partitions, a look whether the log is what was published of it, the pepper, and on an empty log the
 * first account with its key.
 * @returns the first key, null when there was an account already.
 * @throws {ConfigError | StoreError} with one line for the operator.
 */
export async function prepareStore(opened: Store, config: Config): Promise<FirstKey | null> {
  const store = patient(opened);
  await migrate(store);
  const client = await connectRelay(store, PARTITIONS_TIMEOUT_MS);
  try {
    await makePartitions(client);
    await requirePublished(client, publishDirectory(config));
    const pepper = await loadPepper(client, config);
    const { rows } = await client.query(
      "select from daybook.stream_head where stream like 'account/%' limit 1",
    );
    return rows.length > 0 ? null : await createFirstKey(store, pepper);
  } finally {
    await closeClient(client);
  }
}

/**
 * That the log holds what was published of it. Where its tree isn't built so far, or was archived in
 * part, it can't be told here; the worker tells it before it signs.
 * @throws {StaleLogError} where it doesn't.
 */
async function requirePublished(client: Client, directory: string): Promise<void> {
  try {
    await requireConsistent(client, directory, await readLogState(client));
  } catch (error) {
    if (!(error instanceof MissingHashesError)) throw error;
  }
}

/** Null when another server, which started on this empty database at the same moment, was first. */
async function createFirstKey(store: Store, pepper: Buffer): Promise<FirstKey | null> {
  return withControl(store, 'first-start', async (control) => {
    try {
      await control.createAccount(FIRST_ACCOUNT);
    } catch (error) {
      if (error instanceof DecisionError && error.code === 'already_exists') return null;
      throw error;
    }
    const { secret } = await control.createKey(pepper, {
      account: FIRST_ACCOUNT,
      name: 'first key',
      expiresAt: null,
    });
    return { account: FIRST_ACCOUNT, secret };
  });
}

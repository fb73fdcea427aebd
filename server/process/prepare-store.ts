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

/** The key created on the first start. Its secret is stored nowhere. */
export type FirstKey = { account: string; secret: string };

/** The account created on the first start, which the first administrator joins. */
export const FIRST_ACCOUNT = 'first';

/**
 * Prepares the database once before any server runs on it: migrates the schema, creates the log's partitions,
 * checks the log against the published checkpoint, loads the pepper, and creates the first account and its
 * key if the log is empty.
 * @returns the first key; null if there was an account already.
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
 * Checks that the log is consistent with the published checkpoint. If the tree isn't built that far, or a
 * part of the log is archived, the check is left to the worker, which makes it before it signs.
 * @throws {StaleLogError} when the log is not consistent.
 */
async function requirePublished(client: Client, directory: string): Promise<void> {
  try {
    await requireConsistent(client, directory, await readLogState(client));
  } catch (error) {
    if (!(error instanceof MissingHashesError)) throw error;
  }
}

/** @returns null if another server, which started on the same empty database, was first. */
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

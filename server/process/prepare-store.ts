import type { Client } from 'pg';
import { closeClient, patient, type Store } from '#db/postgres/connect.ts';
import { makePartitions, PARTITIONS_TIMEOUT_MS } from '#db/log/partitions.ts';
import { migrate } from '#db/schema/migrate.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { readLogState, requireConsistent } from '#db/tlog/log-state.ts';
import type { Config } from '#server/process/config.ts';
import { masterKeyFile } from '#db/secrets/master-key.ts';
import { readKeys } from '#server/secrets/master-key.ts';
import { loadPepper } from '#server/secrets/pepper.ts';

/**
 * Prepares the database once before any server runs on it: migrates the schema, creates the log's
 * partitions, checks the log against the published checkpoint, and loads the pepper.
 * @throws {ConfigError | StoreError} with one line for the operator.
 */
export async function prepareStore(opened: Store, config: Config): Promise<void> {
  const store = patient(opened);
  await migrate(store);
  const client = await connectRelay(store, PARTITIONS_TIMEOUT_MS);
  try {
    await makePartitions(client);
    await requirePublished(client, publishDirectory(config));
    await loadPepper(client, config);
    // Before a credential needs it: it may be one that others can read.
    readKeys(masterKeyFile(config));
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

import type { Client } from 'pg';
import {
  checkDurability,
  closeClient,
  connectAs,
  externalStore,
  patient,
  type Store,
  StoreError,
} from '#db/postgres/connect.ts';
import { connectEmbedded, startEmbedded } from '#db/postgres/embedded/embedded.ts';

export type OpenedStore = { store: Store; close(): Promise<void> };

/** Which database: the one at an address, or the one in a directory. */
export type StoreLocation = { DATABASE_URL?: string | undefined; DAYBOOK_DATA: string };

/**
 * The database of a server: the operator's own, or one that we start and watch.
 * @throws {StoreError} when it can't be used; the message is for the operator.
 */
export async function openStore(config: StoreLocation, log: (line: string) => void): Promise<OpenedStore> {
  if (config.DATABASE_URL === undefined) {
    const embedded = await startEmbedded({ dataDir: config.DAYBOOK_DATA, log });
    return { store: embedded, close: () => embedded.stop() };
  }
  const store = externalStore(config.DATABASE_URL);
  await checkExternal(store);
  return { store, close: async () => {} };
}

/** The database for a command: that of the running server, or, when none runs, one for the moment. */
export async function borrowStore(config: StoreLocation, log: (line: string) => void): Promise<OpenedStore> {
  if (config.DATABASE_URL === undefined) {
    const running = await connectEmbedded(config.DAYBOOK_DATA);
    if (running) return { store: running, close: async () => {} };
  }
  return openStore(config, log);
}

/** A connection as the relay; it reports its end to whoever uses it and never to the process. */
export async function connectRelay(store: Store, timeoutMs?: number): Promise<Client> {
  return connectAs(store, 'relay', timeoutMs);
}

/** The owner looks, because the relay's role may not exist before the first migration. */
async function checkExternal(store: Store): Promise<void> {
  let client: Client;
  try {
    client = await connectAs(patient(store), 'owner');
  } catch (error) {
    throw new StoreError(`DATABASE_URL is not usable: no connection (${(error as Error).message}).`, {
      cause: error,
    });
  }
  try {
    await checkDurability(client, { checksums: false });
  } finally {
    await closeClient(client);
  }
}

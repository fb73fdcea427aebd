import type { Client } from 'pg';
import { checkServer } from '#db/postgres/check-server.ts';
import {
  closeClient,
  connectAs,
  externalStore,
  patient,
  type Store,
  StoreUnavailable,
} from '#db/postgres/connect.ts';
import { connectEmbedded, startEmbedded } from '#db/postgres/embedded/embedded.ts';

export type OpenedStore = { store: Store; close(): Promise<void> };

/** Which database: the one at an address, or the embedded one in a directory. */
export type StoreLocation = { DATABASE_URL?: string | undefined; DAYBOOK_DATA: string };

/**
 * Opens the database of a server: the operator's own, or an embedded one that this process runs.
 * @param stop aborts waiting for an embedded one that takes long to start.
 * @throws {StoreError} if it can't be used; the message is for the operator.
 */
export async function openStore(
  config: StoreLocation,
  log: (line: string) => void,
  stop?: AbortSignal,
): Promise<OpenedStore> {
  if (config.DATABASE_URL === undefined) {
    const embedded = await startEmbedded({ dataDir: config.DAYBOOK_DATA, log, stop });
    return { store: embedded, close: () => embedded.stop() };
  }
  const store = externalStore(config.DATABASE_URL);
  await checkExternal(store);
  return { store, close: async () => {} };
}

/**
 * Opens the database for a command: that of the running server, or one for the duration of the command. Its
 * sessions have the connection timeout of commands.
 */
export async function borrowStore(config: StoreLocation, log: (line: string) => void): Promise<OpenedStore> {
  if (config.DATABASE_URL === undefined) {
    const running = await connectEmbedded(config.DAYBOOK_DATA);
    if (running) return { store: patient(running), close: async () => {} };
  }
  const { store, close } = await openStore(config, log);
  return { store: patient(store), close };
}

/**
 * The database that another process has opened and supervises: a server's embedded one, or the operator's.
 * @throws {StoreError} if it is not running; the message is for the operator.
 */
export async function attachStore({ DATABASE_URL, DAYBOOK_DATA }: StoreLocation): Promise<Store> {
  if (DATABASE_URL !== undefined) return externalStore(DATABASE_URL);
  const running = await connectEmbedded(DAYBOOK_DATA);
  if (running === null)
    throw new StoreUnavailable(
      `no PostgreSQL runs in ${DAYBOOK_DATA} (DAYBOOK_DATA): start the server first, or set DATABASE_URL`,
    );
  return running;
}

/** A connection as the relay. Its errors reach its user and never crash the process. */
export async function connectRelay(store: Store, timeoutMs?: number): Promise<Client> {
  return connectAs(store, 'relay', timeoutMs);
}

/** Checks as the owner, because the relay's role may not exist before the first migration. */
async function checkExternal(store: Store): Promise<void> {
  let client: Client;
  try {
    client = await connectAs(patient(store), 'owner');
  } catch (error) {
    throw new StoreUnavailable(`DATABASE_URL is not usable: no connection (${(error as Error).message}).`, {
      cause: error,
    });
  }
  try {
    await checkServer(client);
  } finally {
    await closeClient(client);
  }
}

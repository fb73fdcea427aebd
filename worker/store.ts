import { Client } from 'pg';
import { externalStore, type Role, type Store, StoreError, withTimeout } from '#db/connect.ts';
import { connectEmbedded } from '#db/embedded.ts';
import type { WorkerConfig } from './config.ts';

/**
 * The database that a server of ours has opened, or the operator's own.
 * @throws {StoreError} when none runs; the message is for the operator.
 */
export async function openStore({ DATABASE_URL, DAYBOOK_DATA }: WorkerConfig): Promise<Store> {
  if (DATABASE_URL !== undefined) return externalStore(DATABASE_URL);
  const store = await connectEmbedded(DAYBOOK_DATA);
  if (store === null) throw new StoreError(`no PostgreSQL runs in ${DAYBOOK_DATA} (DAYBOOK_DATA): start the server first, or set DATABASE_URL`);
  return store;
}

/** A connection as the worker, or as another role; it reports its end to whoever uses it and never to the process. */
export async function connectWorker(store: Store, timeoutMs?: number, role: Role = 'worker'): Promise<Client> {
  const config = store.config(role);
  const client = new Client(timeoutMs === undefined ? config : withTimeout(config, timeoutMs));
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

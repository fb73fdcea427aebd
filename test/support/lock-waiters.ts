import type { Client, ClientBase } from 'pg';
import { connectAs, type Store } from '#db/postgres/connect.ts';

/**
 * How many sessions of the client's own database wait for a lock, or only for one on the given table. Other
 * databases of the cluster belong to tests that run at the same time, and their tables have the same OIDs.
 * @param table with its schema
 */
export async function countLockWaiters(client: Pick<ClientBase, 'query'>, table?: string): Promise<number> {
  // In a transaction, pg_stat_activity doesn't change after it was read once.
  await client.query('select pg_stat_clear_snapshot()');
  const { rowCount } = await client.query(
    `select from pg_locks where not granted and ($1::text is null or relation = $1::regclass)
      and pid in (select pid from pg_stat_activity where datname = current_database())`,
    [table],
  );
  return rowCount ?? 0;
}

/**
 * Connects as the owner, without the lock timeout of an owner's session: where a test holds a lock until it
 * has seen others wait for it, a busy machine may take longer than that.
 */
export async function connectPatientOwner(store: Store): Promise<Client> {
  const client = await connectAs(store, 'owner');
  await client.query('set lock_timeout = 0');
  return client;
}

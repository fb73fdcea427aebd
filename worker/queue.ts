import type { DatabaseError } from 'pg';
import { runMigrations } from 'graphile-worker';
import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { openPool, type Store, StoreError, withTimeout } from '#db/postgres/connect.ts';
import { awaitMigrationTurn } from '#db/schema/apply.ts';
import { ownsSchema } from '#db/postgres/service-login.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { queueLogger } from './queue-logger.ts';

/**
 * The queue's tables have row security without a policy, so that only their owner sees any row.
 * The worker's role may use all of them, including those that a newer version adds.
 */
const OPEN = `do $$
declare
  _table regclass;
begin
  grant usage on schema graphile_worker to daybook_worker;
  grant select, insert, update, delete on all tables in schema graphile_worker to daybook_worker;
  for _table in select c.oid from pg_class c
    where c.relnamespace = 'graphile_worker'::regnamespace and c.relrowsecurity
      and not exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'daybook_worker')
  loop
    execute format(
      'create policy daybook_worker on %s to daybook_worker using (true) with check (true)', _table);
  end loop;
end
$$`;

/**
 * Creates or migrates the queue's schema, as the owner. A login that does not own it only checks
 * that it is up to date.
 * @throws {StoreError} when it is not.
 */
export async function prepareQueue(store: Store, log: Logger): Promise<void> {
  const config = withTimeout(store.config('owner'), MIGRATION_TIMEOUT_MS);
  // One connection holds the lock, the other one migrates.
  const pool = openPool({ ...config, max: 2 });
  try {
    const client = await pool.connect();
    try {
      if (!(await ownsSchema(client, 'graphile_worker'))) return await checkQueue(store, log);
      await awaitMigrationTurn(client);
      await runMigrations({ pgPool: pool, logger: queueLogger(log) });
      await client.query(OPEN);
    } finally {
      // Closed instead of returned to the pool, which always releases the lock.
      client.release(true);
    }
  } finally {
    await pool.end();
  }
}

/** SQLSTATEs for a missing schema or table, or a missing privilege. */
const NOT_PREPARED = new Set(['3F000', '42P01', '42501']);

/** Runs the queue's migrations as the worker: they do nothing if up to date, and fail otherwise. */
async function checkQueue(store: Store, log: Logger): Promise<void> {
  const pool = openPool({ ...store.config('worker'), max: 1 });
  try {
    await runMigrations({ pgPool: pool, logger: queueLogger(log) });
  } catch (error) {
    if (!NOT_PREPARED.has((error as DatabaseError).code ?? '')) throw error;
    throw new StoreError(
      'the job queue is not up to date, and this login may not migrate it: ' +
        "run `npm run migrate` with its owner's DATABASE_URL",
      { cause: error },
    );
  } finally {
    await pool.end();
  }
}

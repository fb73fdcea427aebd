import type { DatabaseError } from 'pg';
import { runMigrations } from 'graphile-worker';
import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { openPool, type Store, StoreError, withTimeout } from '#db/postgres/connect.ts';
import { awaitMigrationTurn } from '#db/schema/apply.ts';
import { ownsSchema } from '#db/postgres/service-login.ts';
import { type Logger, queueLogger } from './logger.ts';

/**
 * The queue's tables have row security on and no policy, so that only their owner sees anything.
 * The worker's role may use them all, including those that a newer version brings.
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
    execute format('create policy daybook_worker on %s to daybook_worker using (true) with check (true)', _table);
  end loop;
end
$$`;

/**
 * Makes the queue's schema, or brings it up to date, as the owner, who is needed for nothing else
 * here. A login that does not own it only looks whether it is up to date.
 * @throws {StoreError} when it is not.
 */
export async function prepareQueue(store: Store, log: Logger): Promise<void> {
  const config = withTimeout(store.config('owner'), MIGRATION_TIMEOUT_MS);
  // One holds the lock, one migrates.
  const pool = openPool({ ...config, max: 2 });
  try {
    const client = await pool.connect();
    try {
      if (!(await ownsSchema(client, 'graphile_worker'))) return await checkQueue(store, log);
      await awaitMigrationTurn(client);
      await runMigrations({ pgPool: pool, logger: queueLogger(log) });
      await client.query(OPEN);
    } finally {
      // Ended rather than returned, which gives the lock back whatever has happened.
      client.release(true);
    }
  } finally {
    await pool.end();
  }
}

/** What Postgres says where a schema or table is missing, or may not be changed. */
const NOT_PREPARED = new Set(['3F000', '42P01', '42501']);

/**
 * The queue's own migration, which does nothing where nothing is missing, and may not do anything else as the
 * worker.
 */
async function checkQueue(store: Store, log: Logger): Promise<void> {
  const pool = openPool({ ...store.config('worker'), max: 1 });
  try {
    await runMigrations({ pgPool: pool, logger: queueLogger(log) });
  } catch (error) {
    if (!NOT_PREPARED.has((error as DatabaseError).code ?? '')) throw error;
    throw new StoreError(
      'the job queue is not up to date, and this login may not migrate it: run "npm run migrate" with its owner\'s DATABASE_URL',
      { cause: error },
    );
  } finally {
    await pool.end();
  }
}

import { Pool } from 'pg';
import { runMigrations } from 'graphile-worker';
import type { Store } from '#db/connect.ts';
import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { withTimeout } from '#db/connect.ts';
import { type Logger, queueLogger } from './telemetry.ts';

/** Migrating the queue, opening it to the worker: one at a time, whoever starts at the same moment. */
const LOCK = 'select pg_advisory_lock(22, 0)';

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

/** Makes the queue's schema, or brings it up to date, as the owner, who is needed for nothing else here. */
export async function prepareQueue(store: Store, log: Logger): Promise<void> {
  const config = withTimeout(store.config('owner'), MIGRATION_TIMEOUT_MS);
  // One holds the lock, one migrates.
  const pool = new Pool({ ...config, max: 2 });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  try {
    const client = await pool.connect();
    try {
      await client.query(LOCK);
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

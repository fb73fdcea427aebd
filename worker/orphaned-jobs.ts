import type { Pool } from 'pg';

/**
 * Unlocks the jobs of dead workers, which the queue itself would keep locked for four hours. Each
 * worker registers the name under which it locks jobs; when its instance is declared dead, within
 * seconds, the other workers unlock them. A job may so run twice, if its worker was only frozen:
 * every task is idempotent. A worker whose queue has ended by an error locks jobs under another name
 * with the next one, and unlocks those of the last one.
 */

/** How often dead workers are looked up. */
export const FREE_EVERY_MS = 5_000;

const HOLD = `insert into daybook.queue_pool (pool, instance) values ($1, $2)
  on conflict (pool) do update set instance = excluded.instance
    where queue_pool.instance <> excluded.instance`;
const FREE = `with dead as (
    delete from daybook.queue_pool p using daybook.instance i
      where i.id = p.instance and (i.dead_at is not null or (i.id = $2 and p.pool <> $1)) returning p.pool)
  select graphile_worker.force_unlock_workers(array_agg(pool)) from dead having count(*) > 0`;

/**
 * Registers the name under which this worker locks jobs, and unlocks those of dead workers and of its own
 * previous names, under which nothing runs any more.
 * @param name of this worker in the queue.
 * @param instance its current instance number.
 */
export async function freeHeldJobs(pool: Pool, name: string, instance: number): Promise<void> {
  await pool.query(HOLD, [name, instance]);
  await pool.query(FREE, [name, instance]);
}

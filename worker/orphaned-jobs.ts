import type { Pool } from 'pg';

/**
 * Jobs that a killed worker had taken stay locked; the queue itself would wait for four hours. So
 * each worker says under which name it holds jobs, and when its instance is dead (which is found
 * within some seconds) the others free them. A job is so done twice at times, at the end of one that
 * was frozen and wakes: every task bears that.
 */

/** How often dead holders are looked for. */
export const FREE_EVERY_MS = 5_000;

const HOLD = `insert into daybook.queue_pool (pool, instance) values ($1, $2)
  on conflict (pool) do update set instance = excluded.instance where queue_pool.instance <> excluded.instance`;
const FREE = `with dead as (
    delete from daybook.queue_pool p using daybook.instance i where i.id = p.instance and i.dead_at is not null returning p.pool)
  select graphile_worker.force_unlock_workers(array_agg(pool)) from dead having count(*) > 0`;

/**
 * Says that this worker holds jobs, and frees those of dead ones.
 * @param name under which the queue notes what this worker has taken.
 * @param instance its number now.
 */
export async function freeHeldJobs(pool: Pool, name: string, instance: number): Promise<void> {
  await pool.query(HOLD, [name, instance]);
  await pool.query(FREE);
}

import type { JobHelpers } from 'graphile-worker';
import { errorFields, type Logger } from './logger.ts';

/** The tasks that are run so. */
export const REPEATED = ['expire_keys', 'watch_quotas', 'publish_checkpoint'] as const;

/** A fault is told and the look is taken again, so nothing is lost by not failing the job. */
const AFTER_FAULT_MS = 5_000;

/**
 * Runs a task that is done again and again, more often than a crontab can say: each run adds the next
 * one. By the job's key no more than one waits, however many workers there are; the crontab adds it
 * every minute in case that a run was lost.
 * @param work returns after how many milliseconds it is to be done again.
 */
export async function repeat(helpers: JobHelpers, log: Logger, work: () => Promise<number>): Promise<void> {
  const task = helpers.job.task_identifier;
  let pauseMs = AFTER_FAULT_MS;
  try {
    pauseMs = await work();
  } catch (error) {
    log.warn({ task, ...errorFields(error) }, 'a task failed; it is tried again');
  }
  // By Postgres' clock, as jobs are taken.
  await helpers.query(
    `select graphile_worker.add_job($1, job_key => $1, max_attempts => 5, run_at => clock_timestamp() + $2 * interval '1 ms')`,
    [task, Math.ceil(pauseMs)],
  );
}

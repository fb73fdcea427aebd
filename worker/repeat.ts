import type { JobHelpers } from 'graphile-worker';
import type { JobReports } from './job-status.ts';

/** The tasks that reschedule themselves. */
export const REPEATED = ['expire_keys', 'watch_quotas', 'publish_checkpoint'] as const;

/** After an error the task is reported and rescheduled instead of failing its job. */
const AFTER_FAULT_MS = 5_000;

/**
 * Runs a task more often than a crontab can express: each run adds the next one. By the job's key at
 * most one waits, with any number of workers; the crontab adds it every minute in case a run was lost.
 * @param work returns the milliseconds until the next run.
 */
export async function repeat(
  helpers: JobHelpers,
  reports: JobReports,
  work: () => Promise<number>,
): Promise<void> {
  const task = helpers.job.task_identifier;
  let pauseMs = AFTER_FAULT_MS;
  try {
    pauseMs = await reports.run(task, work);
  } catch {
    // Reported, and run again after the pause.
  }
  // By Postgres' clock, like all due times of jobs.
  await helpers.query(
    `select graphile_worker.add_job($1, job_key => $1, max_attempts => 5,
      run_at => clock_timestamp() + $2 * interval '1 ms')`,
    [task, Math.ceil(pauseMs)],
  );
}

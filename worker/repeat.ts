import { setTimeout as wait } from 'node:timers/promises';
import type { JobReports } from './job-status.ts';

/** After an error the task is reported and run again. */
const AFTER_FAULT_MS = 5_000;

/** Does its work, and returns the milliseconds until the next run. */
export type RepeatedTask = () => Promise<number>;

/**
 * Runs tasks that look every few seconds whether there is work. They are no jobs: a job costs the queue half
 * a dozen statements and three commits, whatever it finds. Each worker runs all of them, so that none depends
 * on one process; they are safe beside one another.
 * @returns a promise that resolves when none runs any more, after `signal`.
 */
export async function keepRepeating(
  tasks: Readonly<Record<string, RepeatedTask>>,
  reports: Pick<JobReports, 'run'>,
  signal: AbortSignal,
): Promise<void> {
  await Promise.all(Object.entries(tasks).map(([name, task]) => repeat(name, task, reports, signal)));
}

async function repeat(
  name: string,
  task: RepeatedTask,
  reports: Pick<JobReports, 'run'>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    let pauseMs = AFTER_FAULT_MS;
    try {
      pauseMs = await reports.run(name, task);
    } catch {
      // Reported, and run again after the pause.
    }
    await wait(pauseMs, undefined, { signal }).catch(() => undefined);
  }
}

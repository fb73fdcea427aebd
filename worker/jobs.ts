import { EventEmitter } from 'node:events';
import { type Runner, run, type WorkerEvents } from 'graphile-worker';
import { openPool, type Store } from '#db/postgres/connect.ts';
import { CRONTAB } from './crontab.ts';
import { FREE_EVERY_MS, freeHeldJobs } from './orphaned-jobs.ts';
import { JobReports } from './job-status.ts';
import { REPEATED } from './repeat.ts';
import { PROJECT_JOB, taskList, type Work } from './task-list.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import { queueLogger } from './queue-logger.ts';

/** Concurrent jobs. They wait for Postgres and for webhook receivers far more than they compute. */
const JOBS_MAX = 8;
/** One for the queue's notifications, and one per job. Opened on demand, usually three or four. */
const CONNECTIONS_MAX = JOBS_MAX + 1;
/** Jobs are announced by notifications; polling finds those due later or lost with a connection. */
const POLL_MS = 2_000;
const RERUN_PAUSE_MS = 1_000;
/** How long running jobs may continue after the stop before they are aborted. */
const STOP_ABORT_MS = 3_000;

/** Runs jobs from the queue until stopped, and reconnects a queue that lost its connection. */
export function keepRunning(store: Store, work: Work): { stop(): Promise<void> } {
  const { log } = work;
  const pool = openPool({ ...store.config('worker'), max: CONNECTIONS_MAX });
  const reports = new JobReports((text, values) => pool.query(text, values), log);
  let runner: Runner | undefined;
  const stopping = new AbortController();
  const stopped = new Promise<void>((resolve) => stopping.signal.addEventListener('abort', () => resolve()));

  async function once(): Promise<void> {
    const ending = new AbortController();
    const events: WorkerEvents = new EventEmitter();
    let name = '';
    events.once('pool:create', ({ workerPool }) => {
      name = workerPool.id;
    });
    runner = await run({
      events,
      pgPool: pool,
      concurrency: JOBS_MAX,
      pollInterval: POLL_MS,
      gracefulShutdownAbortTimeout: STOP_ABORT_MS,
      noHandleSignals: true,
      logger: queueLogger(log),
      parsedCronItems: CRONTAB,
      taskList: taskList(work, reports, AbortSignal.any([stopping.signal, ending.signal])),
    });
    if (stopping.signal.aborted) return stopOnce();
    // After a database error the next interval retries.
    const free = (): Promise<void> =>
      freeHeldJobs(pool, name, work.instance.session.instance).catch(() => undefined);
    const freeing = setInterval(() => void free(), FREE_EVERY_MS);
    try {
      await free();
      await project();
      // Ahead of the first request, not ten minutes after it.
      await runner.addJob('make_partitions', {}, { jobKey: 'make_partitions' });
      for (const task of REPEATED) await runner.addJob(task, {}, { jobKey: task });
      await runner.promise;
    } finally {
      clearInterval(freeing);
      // A long job of the disconnected queue would run beside those of the next one.
      ending.abort();
    }
  }

  async function project(): Promise<void> {
    await runner?.addJob(...PROJECT_JOB);
  }

  async function stopOnce(): Promise<void> {
    // Throws if the runner has already ended.
    await runner?.stop().catch(() => undefined);
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await once();
      } catch (error) {
        log.warn(errorFields(error), 'job queue disconnected; reconnecting');
      }
      await Promise.race([stopped, new Promise((resolve) => setTimeout(resolve, RERUN_PAUSE_MS).unref())]);
    }
  }

  // The dead instance may have been the projector. After a database error the queue is restarted,
  // which adds the job too.
  work.instance.onPeerDeath = () => void project().catch(() => undefined);
  const running = loop();
  return {
    async stop() {
      stopping.abort();
      await stopOnce();
      await running;
      await pool.end();
    },
  };
}

import { EventEmitter } from 'node:events';
import { setTimeout as wait } from 'node:timers/promises';
import { type Runner, run, type WorkerEvents } from 'graphile-worker';
import type { PoolClient } from 'pg';
import { openPool, type Store } from '#db/postgres/connect.ts';
import { CRONTAB } from './crontab.ts';
import { FREE_EVERY_MS, freeHeldJobs } from './orphaned-jobs.ts';
import { type JobObserver, JobReports } from './job-status.ts';
import { keepRepeating } from './repeat.ts';
import { sinkDeliveries } from './sinks/sink-deliveries.ts';
import { PROJECT_JOB, repeatedTasks, taskList, type Work } from './task-list.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import { queueLogger } from './queue-logger.ts';
import { retryConnects } from './queue-pool.ts';

/** Concurrent jobs. They wait for Postgres and for receivers of alerts far more than they compute. */
const JOBS_MAX = 8;
/**
 * One for the queue's notifications; jobs and polls share the others, since a job needs one for short
 * statements alone, or opens its own. With one for each, polls at the same moment would open all of them, and
 * the pool would close them again ten seconds later.
 */
const CONNECTIONS_MAX = 4;
/** Jobs are announced by notifications; polling finds those due later or lost with a connection. */
const POLL_MS = 5_000;
const RERUN_PAUSE_MS = 1_000;
/** How long running jobs may continue after the stop before they are aborted. */
const STOP_ABORT_MS = 3_000;
/**
 * Ends of jobs are recorded at once, but by the queue's batches of them: without those it ignores the
 * failure to record one, which is then a rejection without a handler and ends the process. A batch that
 * fails ends the queue instead, which is started again.
 */
const RECORD_END_MS = 0;
/**
 * How long the ends of the last jobs may take to be recorded. A queue for which two batches failed never
 * reports its own end.
 */
const RECORD_LAST_MS = 1_000;

/**
 * Runs jobs from the queue until stopped, and reconnects a queue that lost its connection.
 * @param observer sees the end of each run.
 */
export function keepRunning(
  store: Store,
  work: Work,
  observer: JobObserver | null = null,
): { stop(): Promise<void> } {
  const { log } = work;
  const stopping = new AbortController();
  const pool = retryConnects(openPool({ ...store.config('worker'), max: CONNECTIONS_MAX }), stopping.signal);
  const reports = new JobReports((text, values) => pool.query(text, values), log, observer);
  let runner: Runner | undefined;
  /** Resolves when no job of the queue runs any more. */
  let jobsEnded = Promise.resolve();
  const stopped = new Promise<void>((resolve) => stopping.signal.addEventListener('abort', () => resolve()));

  async function once(): Promise<void> {
    const ending = new AbortController();
    const events: WorkerEvents = new EventEmitter();
    let name = '';
    runner = undefined;
    events.once('pool:create', ({ workerPool }) => {
      name = workerPool.id;
    });
    // The queue's shutdown waits for its jobs, of which one ends only by this signal.
    events.once('pool:gracefulShutdown', () => ending.abort());
    jobsEnded = new Promise((resolve) => {
      events.once('pool:gracefulShutdown:complete', () => resolve());
      events.once('pool:gracefulShutdown:error', () => resolve());
    });
    runner = await run({
      events,
      pgPool: pool,
      concurrency: JOBS_MAX,
      pollInterval: POLL_MS,
      gracefulShutdownAbortTimeout: STOP_ABORT_MS,
      noHandleSignals: true,
      preset: { worker: { completeJobBatchDelay: RECORD_END_MS, failJobBatchDelay: RECORD_END_MS } },
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
      await Promise.race([runner.promise, jobsEnded]);
    } finally {
      clearInterval(freeing);
      // The jobs of this queue would run beside those of the next one.
      ending.abort();
      await stopOnce();
    }
  }

  async function look<T>(task: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await pool.connect();
    let isFit = false;
    try {
      const result = await task(client);
      isFit = true;
      return result;
    } finally {
      client.release(!isFit);
    }
  }

  async function project(): Promise<void> {
    await runner?.addJob(...PROJECT_JOB);
  }

  async function stopOnce(): Promise<void> {
    const current = runner;
    // It rejects if the queue is stopping already.
    const ended = current?.stop().catch(() => current.promise);
    await Promise.race([ended, jobsEnded.then(() => wait(RECORD_LAST_MS))]);
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
  const running = Promise.all([
    loop(),
    keepRepeating(repeatedTasks(work, look), reports, stopping.signal),
    sinkDeliveries(work, look, stopping.signal).run(),
  ]);
  return {
    async stop() {
      stopping.abort();
      await stopOnce();
      await running;
      await pool.end();
    },
  };
}

import { EventEmitter } from 'node:events';
import { type Runner, run, type WorkerEvents } from 'graphile-worker';
import { openPool, type Store } from '#db/postgres/connect.ts';
import { CRONTAB } from './crontab.ts';
import { FREE_EVERY_MS, freeHeldJobs } from './orphaned-jobs.ts';
import { REPEATED } from './repeat.ts';
import { PROJECT_JOB, taskList, type Work } from './task-list.ts';
import { errorFields, queueLogger } from './logger.ts';

/** Jobs at the same time. They wait for Postgres or for receivers of webhooks far more than they compute. */
const JOBS_MAX = 8;
/**
 * The queue itself listens on one, and each job may look something up. They are opened when they are
 * needed, which is three or four as a rule.
 */
const CONNECTIONS_MAX = JOBS_MAX + 1;
/** Jobs come by notification; this is for those that are due later or were lost with a connection. */
const POLL_MS = 2_000;
const RERUN_PAUSE_MS = 1_000;
/** How long running jobs may take after the stop until they are told to give up; then they are left. */
const STOP_ABORT_MS = 3_000;

/** Takes jobs from the queue until stopped; a queue that breaks off with the store is taken up again. */
export function keepRunning(store: Store, work: Work): { stop(): Promise<void> } {
  const { log } = work;
  const pool = openPool({ ...store.config('worker'), max: CONNECTIONS_MAX });
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
      taskList: taskList(work, AbortSignal.any([stopping.signal, ending.signal])),
    });
    if (stopping.signal.aborted) return stopOnce();
    // At a fault of the store the next look does it.
    const free = (): Promise<void> =>
      freeHeldJobs(pool, name, work.instance.session.instance).catch(() => undefined);
    const freeing = setInterval(() => void free(), FREE_EVERY_MS);
    try {
      await free();
      await project();
      for (const task of REPEATED) await runner.addJob(task, {}, { jobKey: task });
      await runner.promise;
    } finally {
      clearInterval(freeing);
      // A long job of a queue that broke off would go on beside those of the next.
      ending.abort();
    }
  }

  async function project(): Promise<void> {
    await runner?.addJob(...PROJECT_JOB);
  }

  async function stopOnce(): Promise<void> {
    // A runner that has ended by itself says so by an error.
    await runner?.stop().catch(() => undefined);
  }

  async function loop(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await once();
      } catch (error) {
        log.warn(errorFields(error), 'the job queue broke off; it is taken up again');
      }
      await Promise.race([stopped, new Promise((resolve) => setTimeout(resolve, RERUN_PAUSE_MS).unref())]);
    }
  }

  // It may have been the one that projected. At a fault of the store the queue is started again, which
  // projects.
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

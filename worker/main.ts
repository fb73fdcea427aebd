import { type Runner, run } from 'graphile-worker';
import { Client, Pool } from 'pg';
import { externalStore, type Store, StoreError, withTimeout } from '#db/connect.ts';
import { RECOVERY_TIMEOUT_MS } from '#db/bounds.ts';
import { connectEmbedded } from '#db/embedded.ts';
import { Place } from './place.ts';
import { prepareQueue } from './queue.ts';
import { recoverInstanceTask } from './tasks/recover-instance.ts';
import { createLogger, errorFields, type Logger, queueLogger } from './telemetry.ts';

/**
 * The worker: what has to be done and no call waits for. A server starts one beside itself; `npm
 * run worker` runs one anywhere, with the server's DATABASE_URL. Any number may run.
 */

/** Each job uses a connection for moments; the queue itself listens on one. */
const CONNECTIONS_MAX = 3;
/** Jobs at the same time. A recovery waits for Postgres, so two dead instances need not queue. */
const JOBS_MAX = 2;
/** Jobs come by notification; this is for those that are due later or were lost with a connection. */
const POLL_MS = 5_000;
const RERUN_PAUSE_MS = 1_000;

async function openStore(): Promise<Store> {
  const { DATABASE_URL, DAYBOOK_DATA } = process.env;
  if (DATABASE_URL) return externalStore(DATABASE_URL);
  const dataDir = DAYBOOK_DATA || './data';
  const store = await connectEmbedded(dataDir);
  if (store === null) throw new StoreError(`no PostgreSQL runs in ${dataDir} (DAYBOOK_DATA): start the server first, or set DATABASE_URL`);
  return store;
}

/** A connection as the worker; it reports its end to whoever uses it and never to the process. */
async function connectWorker(store: Store, timeoutMs?: number): Promise<Client> {
  const config = store.config('worker');
  const client = new Client(timeoutMs === undefined ? config : withTimeout(config, timeoutMs));
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

/** Takes jobs from the queue until stopped; a queue that breaks off with the store is taken up again. */
function keepRunning(store: Store, place: Place, log: Logger): { stop(): Promise<void> } {
  const pool = new Pool({ ...store.config('worker'), max: CONNECTIONS_MAX });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  let runner: Runner | undefined;
  const stopping = new AbortController();
  const stopped = new Promise<void>((resolve) => stopping.signal.addEventListener('abort', () => resolve()));

  async function once(): Promise<void> {
    runner = await run({
      pgPool: pool,
      concurrency: JOBS_MAX,
      pollInterval: POLL_MS,
      noHandleSignals: true,
      logger: queueLogger(log),
      parsedCronItems: [],
      taskList: {
        recover_instance: (payload) =>
          recoverInstanceTask(payload, {
            connect: () => connectWorker(store, RECOVERY_TIMEOUT_MS),
            instance: () => place.instance,
            onRecovered: (dead, abandoned) => place.noteRecovered(dead, abandoned),
          }),
      },
    });
    if (stopping.signal.aborted) return stopOnce();
    await runner.promise;
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

async function main(): Promise<void> {
  /** Whether a server has started it. */
  const isChild = process.connected;
  const log = createLogger(process.env['LOG_LEVEL'] || 'info');
  process.on('unhandledRejection', (error) => {
    log.fatal(errorFields(error), 'an unhandled rejection');
    process.exit(1);
  });
  const store = await openStore();
  if (!isChild) {
    // A server has migrated before it starts its worker, and what that takes is a third of the memory.
    const { migrate } = await import('#db/migrate.ts');
    await migrate(store);
  }
  await prepareQueue(store, log);
  const place = new Place((timeoutMs) => connectWorker(store, timeoutMs), log);
  await place.take();
  const jobs = keepRunning(store, place, log);

  let stopping = false;
  const stop = (): void => {
    if (stopping) process.exit(1);
    stopping = true;
    jobs
      .stop()
      .then(() => place.close())
      .then(
        () => process.exit(0),
        () => process.exit(1),
      );
  };
  if (isChild && !process.connected) return stop();
  process.once('disconnect', stop);
  // A server ends its worker when nothing needs it any more, also where a signal reached both.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, isChild ? () => undefined : stop);
}

// Whoever reads our output may go away; that is no reason to go down.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

try {
  await main();
} catch (error) {
  // No more than a line for the operator; what isn't meant for them is named by its class.
  const line = error instanceof StoreError ? error.message : `it could not start (${errorFields(error).error} ${errorFields(error).code ?? ''})`;
  process.stderr.write(`daybook worker: ${line}\n`);
  process.exit(1);
}

import { attachStore } from '#db/postgres/store.ts';
import { connectAs, StoreError } from '#db/postgres/connect.ts';
import { readWorkerConfig } from './config.ts';
import { keepRunning } from './jobs.ts';
import { WorkerInstance } from './instance.ts';
import { prepareQueue } from './queue.ts';
import { PUBLISH_TIMEOUT_MS, publishLast } from './tasks/publish-checkpoint.ts';
import { createLogger, errorFields } from './logger.ts';

/** Jobs that still run then are left to other workers. A server that started this worker waits 1 s longer. */
const STOP_MAX_MS = 9_000;

/**
 * The worker runs background jobs. A server starts one beside itself; `npm run worker` starts one
 * anywhere, with the server's DATABASE_URL. Any number may run.
 */
async function main(): Promise<void> {
  /** Whether a server has started this worker. */
  const isChild = process.connected;
  const config = readWorkerConfig(process.env);
  const log = createLogger(config.LOG_LEVEL);
  process.on('unhandledRejection', (error) => {
    log.fatal(errorFields(error), 'unhandled rejection');
    process.exit(1);
  });
  const store = await attachStore(config);
  if (!isChild) {
    // A server migrates before it starts its worker; the migrator takes a third of the worker's memory.
    const { migrate } = await import('#db/schema/migrate.ts');
    await migrate(store);
  }
  await prepareQueue(store, log);
  const connect = (timeoutMs?: number) => connectAs(store, 'worker', timeoutMs);
  const instance = new WorkerInstance(connect, log);
  await instance.session.register();
  const connectOwner = (timeoutMs: number) => connectAs(store, 'owner', timeoutMs);
  const jobs = keepRunning(store, { config, log, instance, connect, connectOwner });

  let stopping = false;
  const stop = (): void => {
    if (stopping) process.exit(1);
    stopping = true;
    setTimeout(() => process.exit(1), STOP_MAX_MS).unref();
    jobs
      .stop()
      .then(() =>
        publishLast({ config, log, session: instance.session, connect: () => connect(PUBLISH_TIMEOUT_MS) }),
      )
      .then(() => instance.session.close())
      .then(
        () => process.exit(0),
        () => process.exit(1),
      );
  };
  if (isChild && !process.connected) return stop();
  process.once('disconnect', stop);
  // A server stops its worker last, also where a signal reached both.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, isChild ? () => undefined : stop);
}

// A closed output pipe must not end the worker.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

try {
  await main();
} catch (error) {
  // One line for the operator; unexpected errors are named by their class only.
  const line =
    error instanceof StoreError
      ? error.message
      : `it could not start (${errorFields(error).error} ${errorFields(error).code ?? ''})`;
  process.stderr.write(`daybook worker: ${line}\n`);
  process.exit(1);
}

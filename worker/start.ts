import { attachStore } from '#db/postgres/attach.ts';
import { connectAs, StoreError } from '#db/postgres/connect.ts';
import { readWorkerConfig } from './config.ts';
import { keepRunning } from './jobs.ts';
import { WorkerInstance } from './instance.ts';
import { prepareQueue } from './queue.ts';
import { PUBLISH_TIMEOUT_MS, publishLast } from './tasks/publish-checkpoint.ts';
import { createLogger, errorFields } from './logger.ts';

/** Whatever still runs then is left to others. A server that has started its worker waits a second longer. */
const STOP_MAX_MS = 9_000;

/**
 * The worker: what has to be done and no call waits for. A server starts one beside itself; `npm
 * run worker` runs one anywhere, with the server's DATABASE_URL. Any number may run.
 */
async function main(): Promise<void> {
  /** Whether a server has started it. */
  const isChild = process.connected;
  const config = readWorkerConfig(process.env);
  const log = createLogger(config.LOG_LEVEL);
  process.on('unhandledRejection', (error) => {
    log.fatal(errorFields(error), 'an unhandled rejection');
    process.exit(1);
  });
  const store = await attachStore(config);
  if (!isChild) {
    // A server has migrated before it starts its worker, and what that takes is a third of the memory.
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
  // A server ends its worker when nothing needs it any more, also where a signal reached both.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, isChild ? () => undefined : stop);
}

// Whoever reads our output may go away; that is no reason to go down.
process.stdout.on('error', () => undefined);
process.stderr.on('error', () => undefined);

try {
  await main();
} catch (error) {
  // No more than a line for the operator; what isn't meant for them is named by its class.
  const line =
    error instanceof StoreError
      ? error.message
      : `it could not start (${errorFields(error).error} ${errorFields(error).code ?? ''})`;
  process.stderr.write(`daybook worker: ${line}\n`);
  process.exit(1);
}

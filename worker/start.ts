import { unknownVariables } from '#db/configuration/names.ts';
import { attachStore } from '#db/postgres/store.ts';
import { connectAs, StoreError } from '#db/postgres/connect.ts';
import { readWorkerConfig } from '#db/configuration/worker-config.ts';
import { keepRunning } from './jobs.ts';
import { WorkerInstance } from './instance.ts';
import { prepareQueue } from './queue.ts';
import { PUBLISH_TIMEOUT_MS, publishLast } from './tasks/publish-checkpoint.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { watchProcessFaults } from '#db/diagnostics/process-faults.ts';
import { exitNow, exitProcess, standardError } from '#db/diagnostics/process-output.ts';
import { errorLine } from '#db/diagnostics/error-fields.ts';

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
  const log = createLogger(config.LOG_LEVEL, { process: 'worker' });
  watchProcessFaults(log);
  // A server has logged them for its worker.
  if (!isChild)
    for (const unknown of unknownVariables(process.env)) log.warn(unknown, 'unknown environment variable');
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
  // Its modules are loaded only where metrics are on.
  const metrics =
    config.METRICS_PORT === undefined ? null : new (await import('./metrics.ts')).WorkerMetrics(instance);
  if (isChild) metrics?.answer();
  else await metrics?.serve(config, () => connect(), log);
  const jobs = keepRunning(store, { config, log, instance, connect, connectOwner }, metrics);

  let stopping = false;
  const stop = (): void => {
    // One act may send several signals, and the end is near anyway.
    if (stopping) return;
    stopping = true;
    setTimeout(() => exitNow(1), STOP_MAX_MS).unref();
    jobs
      .stop()
      .then(() =>
        publishLast({ config, log, session: instance.session, connect: () => connect(PUBLISH_TIMEOUT_MS) }),
      )
      .then(() => instance.session.close())
      .then(
        () => exitProcess(0),
        () => exitProcess(1),
      );
  };
  if (isChild && !process.connected) return stop();
  process.once('disconnect', stop);
  // A server stops its worker last, also where a signal reached both.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const)
    process.on(signal, isChild ? () => undefined : stop);
}

try {
  await main();
} catch (error) {
  // One line for the operator; unexpected errors are named by their class only.
  const line = error instanceof StoreError ? error.message : `it could not start: ${errorLine(error)}`;
  standardError.write(`daybook worker: ${line}\n`);
  await exitProcess(1);
}

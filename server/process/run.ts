import { type ChildProcess, spawn } from 'node:child_process';
import path from 'node:path';
import { unknownVariables } from '#db/configuration/names.ts';
import { openStore } from '#db/postgres/store.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { workerEnvironment } from '#server/process/worker-environment.ts';
import { signingKeyFile } from '#db/tlog/signing-key.ts';
import { WORKER_STOP_MS } from '#server/process/bounds.ts';
import { isChild, serveAsChild, serveByChildren } from '#server/process/server-cluster.ts';
import type { Config } from '#server/process/config.ts';
import { greet } from '#server/process/greeting.ts';
import { type SupervisedProcess, superviseProcess } from '#server/process/supervised-process.ts';
import { offerFirstKey } from '#server/process/first-key.ts';
import { requireFreeAddress } from '#server/process/listen.ts';
import { prepareStore } from '#server/process/prepare-store.ts';
import { offerSetup } from '#server/sign-in/setup.ts';
import type { Served } from '#server/process/server.ts';
import { aborted, listenForStop } from '#server/process/shutdown.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import { createLogger, type Logger } from '#db/diagnostics/logger.ts';
import { watchProcessFaults } from '#db/diagnostics/process-faults.ts';
import { exitProcess, standardOutput } from '#db/diagnostics/process-output.ts';
import { buildPage } from '#server/process/web-build.ts';

/**
 * Starts the servers and the worker, and stops them when asked to.
 * @throws {ConfigError | StoreError} with one line for the operator.
 */
export async function run(config: Config): Promise<void> {
  const log = createLogger(config.LOG_LEVEL);
  watchProcessFaults(log);
  if (isChild) return serveAsChild(config, log);
  for (const unknown of unknownVariables(process.env)) log.warn(unknown, 'unknown environment variable');

  const shutdown = listenForStop((line) => standardOutput.write(`${line}\n`));
  await using opening = new AsyncDisposableStack();
  /** By the names that metrics give them. */
  const children = new Map<string, ChildProcess>();
  let served: Served;
  try {
    served = await start(config, log, shutdown.stop, opening, children);
  } catch (error) {
    if (!shutdown.stop.aborted) throw error;
    // The interruption may have caused the error.
    await opening.disposeAsync();
    return exitProcess(0);
  }
  const worker = config.DAYBOOK_WORKER === 'on' ? superviseWorker(config, log, children) : null;
  await aborted(shutdown.stop);
  worker?.release();
  // Load balancers are for services; on a terminal a person waits.
  const lameDuckMs = shutdown.stop.reason === 'SIGTERM' ? config.LAME_DUCK_MS : 0;
  let code = 0;
  for (const step of [
    () => served.stop({ lameDuckMs, cut: shutdown.cut }),
    () => worker?.stop(WORKER_STOP_MS),
    () => opening.disposeAsync(),
  ]) {
    try {
      await step();
    } catch (error) {
      // PostgreSQL stops whatever became of the steps before.
      log.error(errorFields(error), 'shutdown: a step failed');
      code = 1;
    }
  }
  await exitProcess(shutdown.cut.aborted ? 1 : code);
}

/**
 * Starts the database and the servers, and prints the greeting.
 * @param stop aborts the start between two steps.
 * @param opening closes the database.
 * @param children receives the server processes, where they are children.
 */
async function start(
  config: Config,
  log: Logger,
  stop: AbortSignal,
  opening: AsyncDisposableStack,
  children: Map<string, ChildProcess>,
): Promise<Served> {
  await requireFreeAddress(config);
  // The server's modules are loaded while the database starts. A primary with children doesn't need them.
  const server = config.DAYBOOK_INSTANCES === 1 ? import('#server/process/server.ts') : null;
  const built = buildPage(log);
  const { store, close } = await openStore(config, (line) => log.info(line), stop);
  opening.defer(close);
  stop.throwIfAborted();
  await prepareStore(store, config);
  await built;
  stop.throwIfAborted();
  const served = server
    ? await (await server).serve(config, log, store)
    : await serveByChildren(config, log, stop, store, (index, child) =>
        children.set(`server-${index + 1}`, child),
      );
  try {
    stop.throwIfAborted();
    if (config.METRICS_PORT !== undefined) {
      const { openMetricsEndpoint } = await import('#server/telemetry/open-endpoint.ts');
      const endpoint = await openMetricsEndpoint(config, store, served.scrape, children);
      opening.defer(() => endpoint.close());
      log.info({ port: endpoint.port }, 'metrics served');
    }
    // Other outputs are kept by service managers and containers.
    const isShown = process.stdout.isTTY;
    const firstKey = await offerFirstKey(store, config, isShown);
    const { origin } = new URL(served.baseUrl);
    const setup = await offerSetup(store, config, { origin, isShown }, log);
    standardOutput.write(greet({ ...served, firstKey, setup, isShown }));
  } catch (error) {
    await served.stop();
    throw error;
  }
  return served;
}

const WORKER = path.join(import.meta.dirname, '../../worker/main.ts');
/** A worker allocates little at a time, so a small young generation and one thread of V8's save memory. */
const WORKER_FLAGS = ['--max-semi-space-size=1', '--v8-pool-size=1'];

/**
 * Runs the worker beside this server. It exits when its IPC channel closes on either side. It has a session
 * (setsid) of its own, because the signals of a terminal are for the server, which stops its worker last.
 */
function superviseWorker(
  config: Config,
  log: Logger,
  children: Map<string, ChildProcess>,
): SupervisedProcess {
  const { DAYBOOK_DATA, LOG_LEVEL } = config;
  // The worker must use the signing key and the directory that this server has checked the log against.
  const places = {
    DAYBOOK_DATA,
    DAYBOOK_SIGNING_KEY_FILE: signingKeyFile(config),
    PUBLISH_DIR: publishDirectory(config),
  };
  return superviseProcess({
    start: () => {
      const child = spawn(process.execPath, [...WORKER_FLAGS, WORKER], {
        env: { ...workerEnvironment(process.env), ...places, LOG_LEVEL },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
        detached: true,
      });
      children.set('worker', child);
      return child;
    },
    ask: (child) => child.connected && child.disconnect(),
    onEnd: ({ pid, exitCode, signalCode }, restartMs) =>
      log.error(
        { pid, code: exitCode, signal: signalCode, restart_ms: restartMs },
        'worker exited; restarting',
      ),
  });
}

import { spawn } from 'node:child_process';
import path from 'node:path';
import { StoreError } from '#db/postgres/connect.ts';
import { openStore } from '#db/postgres/store.ts';
import { publishDirectory } from '#db/tlog/publish-directory.ts';
import { signingKeyFile } from '#db/tlog/signing-key.ts';
import { WORKER_STOP_MS, PARENT_CHECK_MS } from '#server/process/bounds.ts';
import { isChild, serveAsChild, serveByChildren } from '#server/process/server-cluster.ts';
import { type Config, ConfigError, readConfig } from '#server/process/config.ts';
import { greet } from '#server/process/greeting.ts';
import { type SupervisedProcess, superviseProcess } from '#server/process/supervised-process.ts';
import { prepareStore } from '#server/process/prepare-store.ts';
import { offerSetup } from '#server/sign-in/setup.ts';
import { createLogger, type Logger } from '#db/diagnostics/logger.ts';
import { watchProcessFaults } from '#db/diagnostics/process-faults.ts';
import { exitNow, exitProcess, standardError, standardOutput } from '#db/diagnostics/process-output.ts';
import { buildPage } from '#server/process/web-build.ts';

/** `npm start`: reads the configuration, starts the servers and the worker, and stops them on a signal. */
async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = createLogger(config.LOG_LEVEL);
  watchProcessFaults(log);
  if (isChild) return serveAsChild(config, log);

  // The server's modules are loaded while the database starts. A primary with children doesn't need them.
  const server = config.DAYBOOK_INSTANCES === 1 ? import('#server/process/server.ts') : null;
  const built = buildPage(log);
  const { store, close } = await openStore(config, (line) => log.info(line));
  const started = start().catch(async (error: unknown) => {
    await close();
    throw error;
  });
  async function start() {
    const firstKey = await prepareStore(store, config);
    await built;
    const served = server
      ? await (await server).serve(config, log, store)
      : await serveByChildren(config, log);
    const setupLink = await offerSetup(store, config, new URL(served.baseUrl).origin, log).catch(
      async (error: unknown) => {
        await served.stop();
        throw error;
      },
    );
    return { firstKey, served, setupLink };
  }
  const { firstKey, served, setupLink } = await started;
  const worker = config.DAYBOOK_WORKER === 'on' ? superviseWorker(config, log) : null;
  standardOutput.write(greet({ ...served, firstKey, setupLink }));

  let stopping = false;
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) {
      served.kill();
      worker?.kill();
      exitNow(1);
    }
    stopping = true;
    standardOutput.write(
      `${signal} received; waiting for running calls to end. Send it again to exit at once.\n`,
    );
    served
      .stop()
      .then(() => worker?.stop(WORKER_STOP_MS))
      .then(close)
      .then(
        () => exitProcess(0),
        () => exitProcess(1),
      );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  process.on('SIGHUP', stop);
  whenOrphaned(() => stop('SIGTERM'));
}

const WORKER = path.join(import.meta.dirname, '../../worker/main.ts');
/** A worker allocates little at a time, so a small young generation saves memory. */
const WORKER_FLAGS = ['--max-semi-space-size=1'];

/** Runs the worker beside this server. It exits when its IPC channel closes on either side. */
function superviseWorker(config: Config, log: Logger): SupervisedProcess {
  const { DAYBOOK_DATA, LOG_LEVEL } = config;
  // The worker must use the signing key and the directory that this server has checked the log against.
  const places = {
    DAYBOOK_DATA,
    DAYBOOK_SIGNING_KEY_FILE: signingKeyFile(config),
    PUBLISH_DIR: publishDirectory(config),
  };
  return superviseProcess({
    start: () =>
      spawn(process.execPath, [...WORKER_FLAGS, WORKER], {
        env: { ...process.env, ...places, LOG_LEVEL },
        stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
      }),
    ask: (child) => child.connected && child.disconnect(),
    onEnd: ({ pid, exitCode, signalCode }, restartMs) =>
      log.error(
        { pid, code: exitCode, signal: signalCode, restart_ms: restartMs },
        'worker exited; restarting',
      ),
  });
}

/**
 * npm does not forward SIGTERM: it exits, and so does the shell between npm and this process. A server
 * started by npm treats the loss of its parent as that signal, so that it isn't left running.
 */
function whenOrphaned(stop: () => void): void {
  if (process.env['npm_lifecycle_event'] === undefined) return;
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    stop();
  }, PARENT_CHECK_MS);
  timer.unref();
}

try {
  await main();
} catch (error) {
  if (!(error instanceof ConfigError || error instanceof StoreError)) throw error;
  standardError.write(`daybook: ${error.message}\n`);
  await exitProcess(1);
}

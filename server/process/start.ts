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
import { createLogger, type Logger } from '#server/process/logger.ts';
import { buildPage } from '#server/process/web-build.ts';

/** `npm start`: one command, from the configuration to servers that answer, and back down. */
async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = createLogger(config.LOG_LEVEL);
  process.on('unhandledRejection', (error) => {
    log.fatal({ error: error instanceof Error ? error.name : typeof error }, 'an unhandled rejection');
    process.exit(1);
  });
  if (isChild) return serveAsChild(config, log);

  // What a server is made of is loaded while its store opens; who has children serve needs none of it.
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
  process.stdout.write(greet({ ...served, firstKey, setupLink }));

  let stopping = false;
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) {
      served.kill();
      worker?.kill();
      process.exit(1);
    }
    stopping = true;
    process.stdout.write(
      `${signal}: no new calls; ending when the running ones have. Once more to end at once.\n`,
    );
    served
      .stop()
      .then(() => worker?.stop(WORKER_STOP_MS))
      .then(close)
      .then(
        () => process.exit(0),
        () => process.exit(1),
      );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  process.on('SIGHUP', stop);
  whenOrphaned(() => stop('SIGTERM'));
}

const WORKER = path.join(import.meta.dirname, '../../worker/main.ts');
/** It has little to do at a time, and no need for the nursery of a busy process. */
const WORKER_FLAGS = ['--max-semi-space-size=1'];

/** The worker beside this server. It ends when its channel to us closes, whoever closes it. */
function superviseWorker(config: Config, log: Logger): SupervisedProcess {
  const { DAYBOOK_DATA, LOG_LEVEL } = config;
  // What it signs with and where it publishes is what this server has checked its log against.
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
 * npm does not pass SIGTERM on: it ends, and so does the shell between us. A server that npm has
 * started takes the loss of its parent for that signal, instead of running on unseen.
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

// Whoever reads our output may go away; that is no reason to go down.
process.stdout.on('error', () => {});
process.stderr.on('error', () => {});

try {
  await main();
} catch (error) {
  if (!(error instanceof ConfigError || error instanceof StoreError)) throw error;
  process.stderr.write(`daybook: ${error.message}\n`);
  process.exit(1);
}

import '#server/heap.ts';
import { StoreError } from '#db/connect.ts';
import { ConfigError, readConfig } from '#server/config.ts';
import { greet } from '#server/greeting.ts';
import { type RunningServer, startServer } from '#server/server.ts';
import { createLogger } from '#server/telemetry.ts';

/** `npm start`: one command, from the configuration to a server that answers, and back down. */
async function main(): Promise<void> {
  let server: RunningServer;
  try {
    const config = readConfig(process.env);
    const log = createLogger(config.LOG_LEVEL);
    process.on('unhandledRejection', (error) => {
      log.fatal({ error: error instanceof Error ? error.name : typeof error }, 'an unhandled rejection');
      process.exit(1);
    });
    server = await startServer(config, log);
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof StoreError)) throw error;
    process.stderr.write(`daybook: ${error.message}\n`);
    process.exit(1);
  }
  process.stdout.write(greet(server));

  let stopping = false;
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) process.exit(1);
    stopping = true;
    process.stdout.write(`${signal}: no new calls; ending when the running ones have. Once more to end at once.\n`);
    server.stop().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', stop);
  process.on('SIGINT', stop);
  process.on('SIGHUP', stop);
  whenOrphaned(() => stop('SIGTERM'));
}

const PARENT_CHECK_MS = 500;

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

await main();

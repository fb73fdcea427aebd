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
}

await main();

import { attachStore } from '#db/postgres/store.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { ensureServiceLogin } from '#db/postgres/service-login.ts';
import { readWorkerConfig } from '#db/configuration/worker-config.ts';
import { prepareQueue } from './queue.ts';
import { createLogger } from '#db/diagnostics/logger.ts';
import { endWithOutput } from '#db/command-line/process-streams.ts';
import { errorLine } from '#db/diagnostics/error-fields.ts';

/**
 * `npm run migrate`: brings a database up to this version with the owner's DATABASE_URL, the job
 * queue included, and ends. With SERVICE_DATABASE_URL it creates the login of servers and workers,
 * which has no right to change the log. Any number may run at once.
 */
async function main(): Promise<void> {
  const config = readWorkerConfig(process.env);
  const store = await attachStore(config);
  const applied = await migrate(store);
  await prepareQueue(store, createLogger(config.LOG_LEVEL, { process: 'migrate' }));
  const lines = [applied.length === 0 ? 'Nothing to migrate.' : `Migrated: ${applied.join(', ')}.`];
  if (config.SERVICE_DATABASE_URL !== undefined) {
    lines.push(
      `Servers and workers may come as ${await ensureServiceLogin(store, config.SERVICE_DATABASE_URL)}.`,
    );
  }
  process.stdout.write(`${lines.join('\n')}\n`);
}

endWithOutput('daybook migrate');

try {
  await main();
} catch (error) {
  const line = error instanceof StoreError ? error.message : `it failed: ${errorLine(error)}`;
  process.stderr.write(`daybook migrate: ${line}\n`);
  process.exitCode = 1;
}

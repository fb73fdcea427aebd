import cluster from 'node:cluster';
import { readWorkerConfig } from '#db/configuration/worker-config.ts';
import { exitProcess, standardError } from '#db/diagnostics/process-output.ts';
import { describeFileError } from '#db/file-errors.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { type Config, ConfigError, readConfig } from '#server/process/config.ts';

/**
 * `npm start`: reads the configuration, runs the server, and reports in one line why it can't run. The
 * modules of the server are loaded once the configuration is valid: they take most of the time of a start.
 */
export async function start(): Promise<void> {
  try {
    const config = readStartConfig(process.env);
    const { run } = await import('#server/process/run.ts');
    await run(config);
  } catch (error) {
    const line = describeStartError(error);
    if (line === null) throw error;
    standardError.write(`daybook: ${line}\n`);
    await exitProcess(1);
  }
}

/**
 * Reads the configuration of this server, and checks that of the worker beside it.
 * @throws {ConfigError | StoreError} with one line that names the variable.
 */
export function readStartConfig(environment: Record<string, string | undefined>): Config {
  const config = readConfig(environment);
  // Otherwise this server would be ready beside a worker that can't start.
  if (cluster.isPrimary && config.DAYBOOK_WORKER === 'on') readWorkerConfig(environment);
  return config;
}

/** Describes in one line for the operator why a server can't start; null for a fault of the program. */
export function describeStartError(error: unknown): string | null {
  const isOurs = error instanceof ConfigError || error instanceof StoreError;
  return isOurs ? error.message : describeFileError(error);
}

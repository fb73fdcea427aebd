import { StoreError } from '#db/postgres/connect.ts';
import { pepperFile, readPepper } from '#db/secrets/pepper.ts';
import type { WorkerConfig } from '#db/configuration/worker-config.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

/**
 * Opens a target of an alert destination or sink, which is sealed under the pepper. Nothing else in the
 * worker needs the pepper, so a worker without it runs all other tasks. Errors of jobs are not shown, so the
 * fault is logged here.
 * @param named the destination or sink, for the log line.
 * @throws {Error} when the pepper is missing, not usable, or another one.
 */
export function openSealed<T>(
  config: WorkerConfig,
  log: Logger,
  named: { destination: string } | { sink: string },
  open: (pepper: Buffer) => T,
): T {
  const file = pepperFile(config);
  try {
    const pepper = readPepper(file, (line) => new StoreError(line));
    if (pepper === null)
      throw new StoreError(
        `DAYBOOK_PEPPER_FILE is needed to open targets: ${file} is missing. Copy it from the server.`,
      );
    return open(pepper);
  } catch (error) {
    const reason =
      error instanceof StoreError
        ? error.message
        : `DAYBOOK_PEPPER_FILE is not usable: ${file} can't be read, or is not the pepper of this database.`;
    log.error({ ...named, reason }, 'target unavailable; retrying');
    throw error;
  }
}

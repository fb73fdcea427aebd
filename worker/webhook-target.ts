import { StoreError } from '#db/postgres/connect.ts';
import { pepperFile, readPepper } from '#db/secrets/pepper.ts';
import { unsealTarget, type WebhookTarget } from '#db/alerts/webhooks.ts';
import type { WorkerConfig } from '#db/configuration/worker-config.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

/**
 * The target of a webhook's deliveries. Nothing else in the worker needs the pepper, so a worker
 * without it runs all other tasks. Errors of jobs are not shown, so the fault is logged here.
 * @throws {Error} when the pepper is missing, not usable, or another one.
 */
export function readTarget(
  config: WorkerConfig,
  log: Logger,
  webhook: string,
  sealed: Buffer,
): WebhookTarget {
  const file = pepperFile(config);
  try {
    const pepper = readPepper(file, (line) => new StoreError(line));
    if (pepper === null)
      throw new StoreError(
        `DAYBOOK_PEPPER_FILE is needed to sign for webhooks: ${file} is missing. Copy it from the server.`,
      );
    return unsealTarget(pepper, webhook, sealed);
  } catch (error) {
    const reason =
      error instanceof StoreError
        ? error.message
        : `DAYBOOK_PEPPER_FILE is not usable: ${file} can't be read, or is not the pepper of this database.`;
    log.error({ webhook, reason }, 'webhook target unavailable; retrying');
    throw error;
  }
}

import { closeClient, type Store } from '#db/postgres/connect.ts';
import { type SecretUsed, recordSecretUse } from '#db/secrets/secret-use.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { SECRET_USE_LOOK_MS } from '#server/secrets/bounds.ts';
import type { SecretUse } from '#server/secrets/secret-use.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

export type SecretReport = { close(): Promise<void> };

/**
 * Records which secrets of rotating keys are in use, over temporary connections, since keys rarely rotate. A
 * use that could not be recorded is recorded with the next one.
 * @param nowMs Postgres' time, in milliseconds since 1970.
 */
export function reportSecretUse(
  uses: SecretUse,
  store: Store,
  nowMs: () => number,
  log: Logger,
): SecretReport {
  let writing: Promise<void> = Promise.resolve();
  let isBusy = false;
  async function write(due: readonly SecretUsed[]): Promise<void> {
    if (due.length === 0) return;
    try {
      const client = await connectRelay(store);
      try {
        await recordSecretUse(client, due);
      } finally {
        await closeClient(client);
      }
    } catch (error) {
      log.warn(errorFields(error), 'recording secret use failed; retrying at the next use');
    }
  }
  const timer = setInterval(() => {
    if (isBusy) return;
    isBusy = true;
    writing = write(uses.takeDue(nowMs())).finally(() => {
      isBusy = false;
    });
  }, SECRET_USE_LOOK_MS);
  timer.unref();
  return {
    async close() {
      clearInterval(timer);
      await writing;
      await write(uses.takeAll(nowMs()));
    },
  };
}

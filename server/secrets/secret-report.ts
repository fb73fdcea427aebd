import { closeClient, type Store } from '#db/postgres/connect.ts';
import { type SecretUsed, recordSecretUse } from '#db/secrets/secret-use.ts';
import { connectRelay } from '#db/postgres/store.ts';
import { SECRET_USE_LOOK_MS } from '#server/secrets/bounds.ts';
import type { SecretUse } from '#server/secrets/secret-use.ts';
import { errorFields, type Logger } from '#server/process/logger.ts';

export type SecretReport = { close(): Promise<void> };

/**
 * Writes down which secrets of keys in rotation are in use, over a connection for the moment: most
 * of the time nothing is rotated. A use that could not be written is reported again by the next one.
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
      log.warn(
        errorFields(error),
        'writing down which secrets are in use failed; the next use is written down again',
      );
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

import { parentPort, workerData } from 'node:worker_threads';
import { Client } from 'pg';
import { closeClient, StoreError } from '#db/postgres/connect.ts';
import { ArchivedError } from '#db/log/read.ts';
import { isLogFault } from '#db/projections/apply-batch.ts';
import { backtest } from '#server/backtest/run.ts';
import { withFewerLines } from '#server/backtest/tally.ts';
import type { ThreadInput, ThreadMessage } from '#server/backtest/run-in-thread.ts';

/** The thread of one back-test; see `run-in-thread.ts`. */

/** Lines of a page. */
const LINES_MAX = 200;

const { session, anyName, changes, from, to } = workerData as ThreadInput;
const { ssl } = session;

function report(message: ThreadMessage): void {
  // A port between threads has no origin.
  // oxlint-disable-next-line unicorn/require-post-message-target-origin
  parentPort?.postMessage(message);
}

const client = new Client({
  ...session,
  ...(anyName && typeof ssl === 'object' ? { ssl: { ...ssl, checkServerIdentity: () => undefined } } : {}),
});
client.on('error', () => undefined);
await client.connect();
try {
  const result = await backtest(client, {
    ...{ changes, from, to, archiveDir: undefined },
    onProgress: (done, of) => report({ done, of }),
  });
  report({ report: withFewerLines(result, LINES_MAX) });
} catch (error) {
  const failure = failureOf(error);
  if (failure === null) throw error;
  report({ failure });
} finally {
  await closeClient(client);
}

function failureOf(error: unknown): string | null {
  if (error instanceof ArchivedError)
    return (
      `The back-test reads events before position ${error.firstPosition}, which are archived. ` +
      'Run daybook backtest with --archive-dir.'
    );
  return isLogFault(error) || error instanceof StoreError ? `${error.message}.` : null;
}

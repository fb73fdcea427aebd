import type { ClientConfig } from 'pg';
import { Worker } from 'node:worker_threads';
import { type Store, withTimeout } from '#db/postgres/connect.ts';
import type { Changes } from '#server/backtest/candidate.ts';
import type { BacktestReport } from '#server/contract/backtest.ts';

/** One page of the log, beside other work of the database. */
const STATEMENT_TIMEOUT_MS = 120_000;
/** Of accounts, keys, open calls, and the end users, sessions and tags of windows that aren't over. */
const HEAP_MAX_MB = 1_024;

/** What the thread is given. */
export type ThreadInput = {
  session: ClientConfig;
  /** Whether the certificate's name isn't checked: functions can't be sent to a thread. */
  anyName: boolean;
  changes: Changes;
  from: Date;
  to: Date;
};

/** What the thread reports: progress in events, and its end. */
export type ThreadMessage =
  | { done: number; of: number }
  | { report: BacktestReport }
  /** The log or the database prevents it; for people. */
  | { failure: string };

type ThreadRun = Pick<ThreadInput, 'changes' | 'from' | 'to'> & {
  onProgress: (done: number, of: number) => void;
  /** Ends the thread. */
  signal: AbortSignal;
};

/**
 * Runs a back-test in a thread with a connection of its own, so that no call waits for it.
 * @returns a failure if the log or the database prevents it.
 * @throws the reason of the signal, or an error where the thread has one or needs too much memory.
 */
export async function backtestInThread(
  store: Store,
  { onProgress, signal, ...run }: ThreadRun,
): Promise<Exclude<ThreadMessage, { done: number }>> {
  signal.throwIfAborted();
  const session = await sendable(withTimeout(store.config('auditor'), STATEMENT_TIMEOUT_MS));
  const thread = new Worker(new URL('./thread.ts', import.meta.url), {
    workerData: { ...session, ...run } satisfies ThreadInput,
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MB },
  });
  const ended = Promise.withResolvers<Exclude<ThreadMessage, { done: number }>>();
  const abort = (): void => ended.reject(signal.reason as Error);
  signal.addEventListener('abort', abort, { once: true });
  thread.on('message', (message: ThreadMessage) => {
    if ('done' in message) onProgress(message.done, message.of);
    else ended.resolve(message);
  });
  thread.once('error', ended.reject);
  thread.once('exit', () => ended.reject(new Error('the back-test ended without a result')));
  try {
    return await ended.promise;
  } finally {
    signal.removeEventListener('abort', abort);
    await thread.terminate();
  }
}

/** A configuration without functions and hidden properties, which are lost on the way to a thread. */
async function sendable({
  password,
  ssl,
  ...session
}: ClientConfig): Promise<Pick<ThreadInput, 'session' | 'anyName'>> {
  const sent: ClientConfig = { ...session };
  if (password !== undefined) sent.password = typeof password === 'function' ? await password() : password;
  if (typeof ssl !== 'object') return { session: { ...sent, ssl }, anyName: false };
  // pg hides the client's private key from enumeration.
  const { checkServerIdentity, key, ...options } = { ...ssl, key: ssl.key };
  sent.ssl = key === undefined ? options : { ...options, key };
  return { session: sent, anyName: checkServerIdentity !== undefined };
}

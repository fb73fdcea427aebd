import { Worker } from 'node:worker_threads';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import type { Store } from '#db/postgres/connect.ts';
import type { ReconciliationLine, ReconciliationList } from '#server/contract/reconciliations.ts';
import type { ReconcileTask, TaskInput } from '#server/dashboard/reconcile/task.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Config } from '#server/process/config.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';

/** A bill of 8 MiB, and the calls that it lacks: see UNMATCHED_MAX of db/reconcile/bounds.ts. */
const HEAP_MAX_MB = 1_024;
/** A month of 100 million calls takes some ten minutes; an import from an API up to thirty. */
const TASK_MS_MAX = 3_600_000;
/** After a cancellation, until the connection is closed in order. */
const CANCEL_MS_MAX = 10_000;
/** Interval between progress lines, for a smooth progress bar. */
const PROGRESS_EVERY_MS = 250;

const BUSY = new ApiError('not_allowed', {
  message:
    'A reconciliation is already running on this server. Wait for it, or cancel it where it was started.',
});
const FAILED =
  "The task failed because of an error on the server, not in the bill. See the server's log, or use the " +
  'command line: daybook reconcile compare.';
const LATE =
  'The task took longer than an hour. The command line has no time limit: daybook reconcile compare.';

type Running = NonNullable<ReconciliationList['running']>;

/**
 * Comparisons and corrections that the dashboard starts: one at a time per server process, in a thread with a
 * connection of its own, so that no call waits for it.
 */
export class ReconcileTasks {
  readonly #store: Store;
  readonly #config: TaskInput['config'];
  readonly #archiveDir: string | undefined;
  readonly #log: Logger;
  #running: { progress: Running; ended: Promise<unknown>; cancel: () => void } | null = null;

  constructor(
    store: Store,
    config: Pick<Config, 'DAYBOOK_DATA' | 'DAYBOOK_MASTER_KEY_FILE' | 'ARCHIVE_DIR'>,
    log: Logger,
  ) {
    this.#store = store;
    this.#config = {
      DAYBOOK_DATA: config.DAYBOOK_DATA,
      DAYBOOK_MASTER_KEY_FILE: config.DAYBOOK_MASTER_KEY_FILE,
    };
    this.#archiveDir = config.ARCHIVE_DIR;
    this.#log = log;
  }

  get running(): Running | null {
    return this.#running && { ...this.#running.progress };
  }

  /**
   * Starts a task.
   * @param signal cancels it.
   * @returns lines of progress with the result or an error as the last one; none after a cancellation.
   */
  start(
    task: ReconcileTask,
    { actor }: Pick<Caller, 'actor'>,
    signal: AbortSignal,
  ): AsyncGenerator<ReconciliationLine> | ApiError {
    if (this.#running !== null) return BUSY;
    const progress: Running = { kind: task.kind, done: 0, of: 0 };
    const thread = new Worker(new URL('./thread.ts', import.meta.url), {
      workerData: {
        connection: plainConnection(this.#store),
        config: this.#config,
        archiveDir: this.#archiveDir,
        actor,
        task,
      } satisfies TaskInput,
      execArgv: [],
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MAX_MB },
    });
    const cancel = (): void => {
      // A port between threads has no origin.
      // oxlint-disable-next-line unicorn/require-post-message-target-origin
      thread.postMessage('cancel');
      setTimeout(() => void thread.terminate(), CANCEL_MS_MAX).unref();
    };
    const ended = this.#lastLine(thread, progress, signal).finally(() => {
      signal.removeEventListener('abort', cancel);
      this.#running = null;
    });
    this.#running = { progress, ended, cancel };
    signal.addEventListener('abort', cancel, { once: true });
    return progressLines(progress, ended);
  }

  /** Cancels the running task, and waits for its end. */
  async close(): Promise<void> {
    this.#running?.cancel();
    await this.#running?.ended;
  }

  /** The result or error of a thread; null: it was canceled. */
  #lastLine(thread: Worker, progress: Running, signal: AbortSignal): Promise<ReconciliationLine | null> {
    return new Promise((resolve) => {
      let last: ReconciliationLine | null = null;
      const late = setTimeout(() => {
        last = { error: LATE };
        void thread.terminate();
      }, TASK_MS_MAX);
      thread.on('message', (line: ReconciliationLine) => {
        if ('done' in line) Object.assign(progress, line);
        else last = line;
      });
      thread.once('error', (error) => {
        if (signal.aborted) return;
        this.#log.error(errorFields(error), 'a reconciliation failed');
        last = { error: FAILED };
      });
      thread.once('exit', () => {
        clearTimeout(late);
        resolve(last);
      });
    });
  }
}

/** The relay's connection as a thread can receive it: without functions. */
function plainConnection(store: Store): TaskInput['connection'] {
  const { password, ...connection } = store.config('relay');
  return typeof password === 'function'
    ? { ...connection, password: String((password as () => unknown)()) }
    : { ...connection, ...(password === undefined ? {} : { password }) };
}

async function* progressLines(
  progress: Running,
  ended: Promise<ReconciliationLine | null>,
): AsyncGenerator<ReconciliationLine> {
  for (;;) {
    yield { done: progress.done, of: progress.of };
    const pause = Promise.withResolvers<'pause'>();
    const timer = setTimeout(() => pause.resolve('pause'), PROGRESS_EVERY_MS);
    const line = await Promise.race([ended, pause.promise]);
    clearTimeout(timer);
    if (line === 'pause') continue;
    if (line !== null) yield line;
    return;
  }
}

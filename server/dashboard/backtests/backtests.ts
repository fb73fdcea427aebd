import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { readHead } from '#db/log/read.ts';
import { closeClient, connectAs, type Store } from '#db/postgres/connect.ts';
import { tryHoldLock } from '#db/postgres/locks.ts';
import type { Changes } from '#server/backtest/candidate.ts';
import { backtestInThread } from '#server/backtest/run-in-thread.ts';
import { BACKTEST_DAYS } from '#server/contract/backtest-period.ts';
import type { BacktestReport, BacktestStep, StartBacktest } from '#server/contract/backtest.ts';
import { type AuditReader, noteReading } from '#server/dashboard/audit/reader.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';

/** How long people wait for a page that shows progress. */
const RUN_MS_MAX = 3_600_000;
/** Interval between lines of progress, for a smooth progress bar. */
const PROGRESS_EVERY_MS = 250;
/** Results that are kept, and for how long: a dialog is closed and opened again. */
const KEPT_MAX = 8;
const KEPT_MS = 1_800_000;
const DAY_MS = 86_400_000;

const BUSY = new ApiError('not_allowed', {
  message: 'A back-test is already running. Wait for it, or cancel it where it was started.',
});
const STORE_UNAVAILABLE = new ApiError('store_unavailable');

type Progress = { done: number; of: number };
type End = Exclude<BacktestStep, Progress>;
type Reported = Extract<End, { report: BacktestReport }>;

/**
 * Back-tests of the dashboard over the newest calls: one at a time over all servers, in a thread. This
 * process keeps the newest results for a while.
 */
export class Backtests {
  readonly #store: Store;
  readonly #audit: AuditReader;
  readonly #log: Logger;
  readonly #closing = new AbortController();
  readonly #running = new Set<Promise<unknown>>();
  readonly #kept = new Map<string, Reported>();

  constructor(store: Store, audit: AuditReader, log: Logger) {
    this.#store = store;
    this.#audit = audit;
    this.#log = log;
  }

  /**
   * Starts a back-test.
   * @param signal cancels it.
   * @returns the steps that it reports, the last of which has the result; or an error.
   */
  async begin(
    { refresh, ...wanted }: StartBacktest,
    who: Caller,
    signal: AbortSignal,
  ): Promise<AsyncGenerator<BacktestStep> | ApiError> {
    const noted = await this.#audit.use(async (client) => {
      const head = await readHead(client);
      await noteReading(client, who, { what: 'replay', from: Math.min(1, head), to: head });
    });
    if (noted instanceof ApiError) return noted;
    const name = JSON.stringify(wanted);
    const kept = refresh ? null : this.#findKept(name);
    if (kept !== null) return stepsOf({ done: 1, of: 1 }, Promise.resolve(kept));
    const lock = await this.#lock();
    if (lock instanceof ApiError) return lock;
    const progress: Progress = { done: 0, of: 0 };
    const ended = AbortSignal.any([signal, this.#closing.signal, AbortSignal.timeout(RUN_MS_MAX)]);
    const runAndKeep = async (): Promise<End> => {
      try {
        const end = await this.#run(changesOf(wanted), progress, ended);
        if ('report' in end) this.#keep(name, end);
        return end;
      } finally {
        await lock.release();
      }
    };
    const work = runAndKeep();
    this.#running.add(work);
    void work.finally(() => this.#running.delete(work)).catch(() => undefined);
    return stepsOf(progress, work);
  }

  /** Cancels the running one. */
  async close(): Promise<void> {
    this.#closing.abort();
    await Promise.allSettled(this.#running);
  }

  async #lock(): Promise<{ release(): Promise<void> } | ApiError> {
    try {
      const client = await connectAs(this.#store, 'relay');
      const held = await tryHoldLock(client, 'backtest').catch(async (error: unknown) => {
        await closeClient(client);
        throw error;
      });
      if (held !== null) return { release: () => held.release().then(() => closeClient(client)) };
      await closeClient(client);
      return BUSY;
    } catch (error) {
      if (isStoreFault(error)) return STORE_UNAVAILABLE;
      throw error;
    }
  }

  async #run(changes: Changes, progress: Progress, ended: AbortSignal): Promise<End> {
    const to = new Date();
    const from = new Date(to.getTime() - BACKTEST_DAYS * DAY_MS);
    try {
      const end = await backtestInThread(this.#store, {
        ...{ changes, from, to, signal: ended },
        onProgress: (done, of) => Object.assign(progress, { done, of }),
      });
      return 'report' in end ? { report: end.report, ended_at: new Date().toISOString() } : end;
    } catch (error) {
      if (ended.aborted) {
        const isLate = (ended.reason as Error).name === 'TimeoutError';
        return { failure: isLate ? TOO_LONG : 'Canceled.' };
      }
      this.#log.error(errorFields(error), 'a back-test failed');
      return { failure: (error as NodeJS.ErrnoException).code === OUT_OF_MEMORY ? TOO_LARGE : FAILED };
    }
  }

  #findKept(name: string): Reported | null {
    const kept = this.#kept.get(name);
    return kept !== undefined && Date.now() - Date.parse(kept.ended_at) < KEPT_MS ? kept : null;
  }

  #keep(name: string, end: Reported): void {
    this.#kept.delete(name);
    this.#kept.set(name, end);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > KEPT_MAX && oldest !== undefined) this.#kept.delete(oldest);
  }
}

const OUT_OF_MEMORY = 'ERR_WORKER_OUT_OF_MEMORY';
const TOO_LARGE =
  'The back-test needs more memory than the server gives it. Run daybook backtest, which has no such limit.';
const TOO_LONG = `Timed out after ${RUN_MS_MAX / 60_000} minutes. Run daybook backtest: it has no limit.`;
const FAILED = "The back-test failed because of an error on the server. See the server's log, and try again.";

const changesOf = ({ plan, prices }: Pick<StartBacktest, 'plan' | 'prices'>): Changes => ({
  plan:
    plan === undefined
      ? null
      : { terms: plan.terms, scope: plan.of === undefined ? 'all' : { plan: plan.of } },
  prices: prices.map(({ model, plan: of, ...terms }) => ({
    ...{ pattern: model, plan: of, terms, source: 'back-test' },
  })),
  models: new Map(),
});

async function* stepsOf(progress: Progress, end: Promise<End>): AsyncGenerator<BacktestStep> {
  for (;;) {
    yield { ...progress };
    const pause = Promise.withResolvers<null>();
    const timer = setTimeout(() => pause.resolve(null), PROGRESS_EVERY_MS);
    const step = await Promise.race([end, pause.promise]);
    clearTimeout(timer);
    if (step === null) continue;
    yield step;
    return;
  }
}

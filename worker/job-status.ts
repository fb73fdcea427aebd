import type { QueryResult } from 'pg';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';

/**
 * Records how the worker's jobs end, for the status page and for alerts: a job that fails must not do so in
 * silence, since most of them have no other observer.
 */

/** A success is recorded this often, and at once after a failure: some jobs run every second. */
const SUCCESS_EVERY_MS = 30_000;

const FAILED = `insert into daybook.job_status as s (task, failures, failing_since, failed_at, reason)
    values ($1, 1, statement_timestamp(), statement_timestamp(), $2)
  on conflict (task) do update set failures = s.failures + 1,
    failing_since = coalesce(s.failing_since, excluded.failing_since), failed_at = excluded.failed_at,
    reason = excluded.reason`;
const SUCCEEDED = `insert into daybook.job_status (task, succeeded_at) values ($1, statement_timestamp())
  on conflict (task) do update set failures = 0, failing_since = null, succeeded_at = excluded.succeeded_at`;

/** Sees each end of a run. */
export type JobObserver = { ended(task: string, outcome: 'succeeded' | 'failed'): void };

type Query = (text: string, values: unknown[]) => Promise<QueryResult>;

/** Reports the ends of jobs. Its own failures are logged and never fail a job. */
export class JobReports {
  readonly #query: Query;
  readonly #log: Logger;
  readonly #observer: JobObserver | null;
  /** When the success of a task was recorded last, by `performance.now()`. */
  readonly #recordedMs = new Map<string, number>();

  constructor(query: Query, log: Logger, observer: JobObserver | null = null) {
    this.#observer = observer;
    this.#query = query;
    this.#log = log;
  }

  /** Logs that a run of the task failed and why, and records it. */
  async failed(task: string, error: unknown): Promise<void> {
    this.#log.warn({ task, ...errorFields(error) }, 'job failed; it will run again');
    this.#recordedMs.delete(task);
    this.#observer?.ended(task, 'failed');
    await this.#record(FAILED, [task, reasonOf(error)]);
  }

  async succeeded(task: string): Promise<void> {
    this.#observer?.ended(task, 'succeeded');
    const nowMs = performance.now();
    if (nowMs - (this.#recordedMs.get(task) ?? -Infinity) < SUCCESS_EVERY_MS) return;
    this.#recordedMs.set(task, nowMs);
    await this.#record(SUCCEEDED, [task]);
  }

  /**
   * Runs a task and reports its end.
   * @throws what the task throws, so that the queue retries it as it does any other.
   */
  async run<T>(task: string, work: () => Promise<T>): Promise<T> {
    let result: T;
    try {
      result = await work();
    } catch (error) {
      await this.failed(task, error);
      throw error;
    }
    await this.succeeded(task);
    return result;
  }

  async #record(text: string, values: unknown[]): Promise<void> {
    try {
      await this.#query(text, values);
    } catch (error) {
      // Without a database nothing is recorded; each failure has its log line.
      this.#log.debug({ task: values[0], ...errorFields(error) }, 'job status not recorded');
    }
  }
}

/** Without the message, which may quote values. */
function reasonOf(error: unknown): string {
  const { name, code } = errorFields(error).error;
  return code === undefined ? name : `${name} ${code}`;
}

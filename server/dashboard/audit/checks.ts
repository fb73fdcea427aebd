import type { Client } from 'pg';
import { readHead } from '#db/log/read.ts';
import { checkOf, PROJECTION_NAMES, faultOfLog, LOG, type Outcome } from '#server/dashboard/audit/check.ts';
import { type AuditReader, noteReading } from '#server/dashboard/audit/reader.ts';
import type { CheckResult, CheckLine, Checks } from '#server/contract/audit.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';

/**
 * Logs up to this size are checked within the time limit below, beside the calls; longer ones need the
 * command line.
 */
const EVENTS_MAX = 1_000_000;
/** How long people wait for a page that shows progress. */
const CHECK_MS_MAX = 300_000;
/** One statement: a page of the log, or two tables row by row. */
const STATEMENT_TIMEOUT_MS = 120_000;
/** Interval between progress lines, for a smooth progress bar. */
const PROGRESS_EVERY_MS = 250;

const BUSY = new ApiError('not_allowed', {
  message: 'A check is already running on this server. Wait for it, or cancel it where it was started.',
});

/**
 * Checks of the log and of its projections, one at a time per server process, since they read everything
 * beside the calls. The newest results are kept in memory.
 */
export class AuditChecks {
  readonly #reader: AuditReader;
  readonly #log: Logger;
  #running: Checks['running'] = null;
  readonly #newest = new Map<string, CheckResult>();

  constructor(reader: AuditReader, log: Logger) {
    this.#reader = reader;
    this.#log = log;
  }

  async read(): Promise<Checks | ApiError> {
    const head = await this.#reader.use(readHead);
    if (head instanceof ApiError) return head;
    return {
      object: 'checks',
      running: this.#running,
      latest: [...this.#newest.values()],
      projections: [...PROJECTION_NAMES],
      events_max: EVENTS_MAX,
      head,
    };
  }

  /**
   * Starts a check.
   * @param published the directory of the published log.
   * @param signal cancels it.
   * @returns lines of progress with the result as the last one; or an error.
   */
  async begin(
    what: string,
    who: Caller,
    { published }: { published: string },
    signal: AbortSignal,
  ): Promise<AsyncGenerator<CheckLine> | ApiError> {
    const check = checkOf(what);
    if (check === null) return new ApiError('not_found');
    if (this.#running !== null) return BUSY;
    const running = { target: what, done: 0, of: 0 };
    this.#running = running;
    const begun = Promise.withResolvers<ApiError | null>();
    const beganAt = new Date();
    const startedMs = performance.now();
    const ended = AbortSignal.any([signal, AbortSignal.timeout(CHECK_MS_MAX)]);
    const work = this.#reader.use(async (client): Promise<Outcome | ApiError> => {
      const head = await readHead(client);
      if (head > EVENTS_MAX)
        return new ApiError('not_allowed', {
          message: `The log has more than ${EVENTS_MAX} events. Use the command line: daybook audit verify.`,
        });
      running.of = head;
      await noteReading(client, who, {
        what: what === LOG ? 'verify' : 'diff',
        from: Math.min(1, head),
        to: head,
      });
      begun.resolve(null);
      return this.#carryOut(client, ended, () =>
        check(client, { published, signal: ended, onProgress: (done) => (running.done = done) }),
      );
    }, STATEMENT_TIMEOUT_MS);
    const result = work
      .then((outcome): CheckResult | ApiError => {
        if (outcome instanceof ApiError) return outcome;
        const done: CheckResult = {
          target: what,
          started_at: beganAt.toISOString(),
          duration_ms: Math.round(performance.now() - startedMs),
          actor: who.actor,
          ...outcome,
        };
        if (done.outcome !== 'canceled') this.#newest.set(what, done);
        return done;
      })
      .finally(() => {
        this.#running = null;
      });
    result.then((done) => begun.resolve(done instanceof ApiError ? done : null), begun.reject);
    const refusal = await begun.promise;
    return refusal ?? progressLines(running, result);
  }

  /** @returns also a result for a check that failed or was canceled. */
  async #carryOut(client: Client, ended: AbortSignal, work: () => Promise<Outcome>): Promise<Outcome> {
    // Postgres cancels the statement within a second after the client disconnects.
    await client.query("set client_connection_check_interval = '1s'");
    const cut = (): void => void client.connection.stream.destroy();
    ended.addEventListener('abort', cut, { once: true });
    const nothing = (outcome: Outcome['outcome'], summary: string): Outcome => ({
      outcome,
      summary,
      position: 0,
      findings: [],
      findings_omitted: 0,
    });
    try {
      return await work();
    } catch (error) {
      if (ended.aborted) {
        const isLate = (ended.reason as Error).name === 'TimeoutError';
        return isLate
          ? nothing(
              'timed_out',
              `Timed out after ${CHECK_MS_MAX / 60_000} minutes. The command line has no time limit.`,
            )
          : nothing('canceled', 'Canceled.');
      }
      const fault = faultOfLog(error);
      if (fault === null) this.#log.error(errorFields(error), 'a check of the log failed');
      return nothing(
        'failed',
        fault ??
          "The check failed because of an error on the server, not in the event log. See the server's log.",
      );
    } finally {
      ended.removeEventListener('abort', cut);
    }
  }
}

async function* progressLines(
  running: NonNullable<Checks['running']>,
  result: Promise<CheckResult | ApiError>,
): AsyncGenerator<CheckLine> {
  for (;;) {
    yield { done: running.done, of: running.of };
    const pause = Promise.withResolvers<null>();
    const timer = setTimeout(() => pause.resolve(null), PROGRESS_EVERY_MS);
    const done = await Promise.race([result, pause.promise]);
    clearTimeout(timer);
    if (done === null) continue;
    if (!(done instanceof ApiError)) yield { result: done };
    return;
  }
}

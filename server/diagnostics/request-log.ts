import type { LoggedError } from '#db/diagnostics/error-fields.ts';
import { errorFields } from '#db/diagnostics/error-fields.ts';
import type { Logger } from '#db/diagnostics/logger.ts';
import { FAILED_LINES_MAX, LINES_WINDOW_MS, REJECTED_LINES_MAX } from '#server/diagnostics/bounds.ts';

/**
 * `rejected`: the client's own mistake, at `info`. `failed`: a fault of the relay or an upstream, at `warn`.
 */
type Kind = 'rejected' | 'failed';

/** The fields of a line, evaluated only if it is written: nearly every call ends without one. */
type Fields = () => Record<string, string | number | LoggedError | null | undefined>;

const LINES_MAX: Record<Kind, number> = { rejected: REJECTED_LINES_MAX, failed: FAILED_LINES_MAX };

/**
 * The diagnostic lines about requests and connections of this process, bounded: of each kind so many lines
 * are written in a window of LINES_WINDOW_MS, and one line says how many were suppressed.
 */
export class RequestLog {
  readonly #log: Logger;
  readonly #nowMs: () => number;
  readonly #counts: Record<Kind, number> = { rejected: 0, failed: 0 };
  #windowMs = Number.NEGATIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  constructor(log: Logger, nowMs: () => number = () => performance.now()) {
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** A request was rejected because of the request itself. */
  rejected(fields: Fields, message: string): void {
    if (this.#admits('rejected')) this.#log.info(fields(), message);
  }

  /** A request, an attempt or a connection failed through no fault of the client. */
  failed(fields: Fields, message: string): void {
    if (this.#admits('failed')) this.#log.warn(fields(), message);
  }

  /** A fault of the program: always logged. */
  fault(fields: Fields, message: string): void {
    this.#log.error(fields(), message);
  }

  /** An event of interest only while someone debugs. */
  debug(fields: Fields, message: string): void {
    if (this.#log.isLevelEnabled('debug')) this.#log.debug(fields(), message);
  }

  /** A connection to an upstream could not be opened. @param host its name and port. */
  connectionFailed(host: string, error: Error): void {
    this.failed(() => ({ host, ...errorFields(error) }), 'upstream connection failed');
  }

  /** A circuit breaker opened or closed. Its changes are bounded by its pauses. */
  circuitChanged(
    subject: { upstream: string; credential: string | null },
    change: { state: 'open' | 'closed'; reason: string | null; openForMs: number },
  ): void {
    const { state, reason, openForMs } = change;
    const fields = { ...subject, reason, ...(state === 'open' ? { open_ms: Math.round(openForMs) } : {}) };
    if (state === 'open') this.#log.warn(fields, 'circuit opened');
    else this.#log.info(fields, 'circuit closed');
  }

  #admits(kind: Kind): boolean {
    const nowMs = this.#nowMs();
    if (nowMs - this.#windowMs >= LINES_WINDOW_MS) {
      this.#endWindow();
      this.#windowMs = nowMs;
    }
    if (++this.#counts[kind] <= LINES_MAX[kind]) return true;
    // No later request may come to end the window.
    this.#timer ??= setTimeout(() => this.#endWindow(), LINES_WINDOW_MS).unref();
    return false;
  }

  #endWindow(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (const kind of ['rejected', 'failed'] as const) {
      const suppressed = this.#counts[kind] - LINES_MAX[kind];
      this.#counts[kind] = 0;
      if (suppressed > 0) this.#log.warn({ kind, suppressed }, 'request lines suppressed');
    }
    this.#windowMs = Number.NEGATIVE_INFINITY;
  }
}

import { CIRCUIT_OPEN_MAX_MS, CIRCUIT_OPEN_MS, OPEN_AFTER_FAILURES } from '#server/upstreams/bounds.ts';

/**
 * The circuit breaker of an upstream, or of one of its credentials. Its states:
 *
 * - *closed*: calls are allowed. Failures in a row are counted, and so are replies in a row that began and
 *   were interrupted.
 * - *open*: no call is allowed until {@link CircuitBreaker.openUntilMs}.
 * - *half-open*: that time is over, and the upstream has not answered since. One call at a time is allowed,
 *   the trial; health probes try it too.
 *
 * Transitions: closed → open by OPEN_AFTER_FAILURES failures or interruptions in a row, or by one failure
 * that says for how long the upstream is of no use (Retry-After, a rejected credential). open → half-open
 * by time. half-open → closed by an answer to any call or probe. half-open → open by a failure, for twice
 * as long as the time before, up to CIRCUIT_OPEN_MAX_MS.
 *
 * Callers may still send a call to an open circuit where every circuit is open. All times are of the
 * monotonic clock. Pure but for its own state.
 */
export class CircuitBreaker {
  /** Failures in a row, without a reply that began. */
  #failures = 0;
  /** Replies in a row that began and were interrupted. */
  #interruptions = 0;
  /** How often in a row the circuit has opened; 0 while it is closed. */
  #opened = 0;
  #openUntilMs = Number.NEGATIVE_INFINITY;
  #openedMs = Number.NEGATIVE_INFINITY;
  /** When the trial call of the half-open circuit began; null: no trial call is running. */
  #trialMs: number | null = null;
  #running = 0;
  #problem: string | null = null;
  /** Called when the circuit opens, also for longer, and when it closes. */
  onChange: (change: CircuitChange) => void = () => {};

  /** Calls under way. */
  get running(): number {
    return this.#running;
  }

  /** When the circuit stops being open; in the past where it is not open. */
  get openUntilMs(): number {
    return this.#openUntilMs;
  }

  /** Whether a call is allowed: the circuit is closed, or half-open without a trial. */
  allows(nowMs: number): boolean {
    return nowMs >= this.#openUntilMs && this.#trialMs === null;
  }

  /** A call began. */
  began(nowMs: number): void {
    this.#running++;
    if (this.#opened > 0) this.#trialMs ??= nowMs;
  }

  /**
   * A call ended, with whatever result. Where it was the trial and no result was reported, the next call
   * is.
   */
  ended(beganMs: number): void {
    this.#running--;
    if (this.#trialMs === beganMs) this.#trialMs = null;
  }

  /** A successful reply began, which closes the circuit. Interruptions in a row are still counted. */
  answered(): void {
    if (this.#opened > 0) this.onChange({ state: 'closed', reason: this.#problem, openForMs: 0 });
    this.#failures = this.#opened = 0;
    this.#openUntilMs = Number.NEGATIVE_INFINITY;
    this.#trialMs = null;
    if (this.#interruptions === 0) this.#problem = null;
  }

  /** A successful reply came to its end. */
  succeeded(): void {
    this.#interruptions = 0;
    this.answered();
  }

  /**
   * A call failed without a reply.
   * @param problem a code of the failure.
   * @param openForMs for how long the upstream is known to be of no use; null: unknown.
   */
  failed(beganMs: number, nowMs: number, problem: string, openForMs: number | null): void {
    this.#failures++;
    this.#count(beganMs, nowMs, problem, openForMs);
  }

  /** A reply that had begun was interrupted. */
  interrupted(beganMs: number, nowMs: number, problem: string): void {
    this.#interruptions++;
    this.#count(beganMs, nowMs, problem, null);
  }

  #count(beganMs: number, nowMs: number, problem: string, openForMs: number | null): void {
    this.#problem = problem;
    // A hundred calls that one outage ends open the circuit once: those that began before it opened say
    // nothing new.
    if (nowMs < this.#openUntilMs || beganMs < this.#openedMs) {
      this.#openUntilMs = Math.max(this.#openUntilMs, nowMs + (openForMs ?? 0));
      return;
    }
    if (openForMs !== null) return this.#open(nowMs, openForMs);
    if (Math.max(this.#failures, this.#interruptions) < OPEN_AFTER_FAILURES && this.#opened === 0) return;
    this.#open(nowMs, Math.min(CIRCUIT_OPEN_MS * 2 ** this.#opened, CIRCUIT_OPEN_MAX_MS));
  }

  /** The state as the dashboard shows it. */
  status(nowMs: number): CircuitStatus {
    const failures = this.#failures + this.#interruptions;
    const state = this.#state(nowMs, failures);
    return {
      state,
      problem: this.#problem,
      failures,
      open_ms: state === 'open' ? Math.ceil(this.#openUntilMs - nowMs) : 0,
      running: this.#running,
    };
  }

  #state(nowMs: number, failures: number): CircuitStatus['state'] {
    if (nowMs < this.#openUntilMs) return 'open';
    if (this.#opened > 0) return 'half_open';
    return failures > 0 ? 'degraded' : 'healthy';
  }

  #open(nowMs: number, forMs: number): void {
    this.#opened++;
    this.#openedMs = nowMs;
    this.#openUntilMs = nowMs + forMs;
    this.onChange({ state: 'open', reason: this.#problem, openForMs: forMs });
  }
}

/** A circuit opened for so long, or closed, with the code of its newest failure. */
export type CircuitChange = { state: 'open' | 'closed'; reason: string | null; openForMs: number };

export type CircuitStatus = {
  /** A closed circuit is `healthy`, or `degraded` while its newest calls failed. */
  state: 'healthy' | 'degraded' | 'open' | 'half_open';
  /** The code of the newest failure; null: none since the circuit was last healthy. */
  problem: string | null;
  /** Failures and interruptions in a row. */
  failures: number;
  /** How long the circuit stays open; 0 where it is not open. */
  open_ms: number;
  running: number;
};

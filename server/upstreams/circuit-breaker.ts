import { EJECT_AFTER_FAILURES, EJECTION_MAX_MS, EJECTION_MS } from '#server/upstreams/bounds.ts';

/**
 * How an upstream, or one credential of it, fares with this process' calls. After several failures in
 * a row it is ejected for a while, each time for longer; then one call at a time tries it again, and a
 * good answer to that brings it back. By the monotonic clock. Pure but for what it remembers.
 */
export class CircuitBreaker {
  /** In a row, without a reply that began well. */
  #failures = 0;
  /** Replies in a row that began well and broke off. */
  #broken = 0;
  #ejections = 0;
  #untilMs = Number.NEGATIVE_INFINITY;
  #ejectedMs = Number.NEGATIVE_INFINITY;
  /** When the call began that tries it again; null: none does. */
  #trialMs: number | null = null;
  #running = 0;
  #problem: string | null = null;

  /** How many calls are at it now. */
  get running(): number {
    return this.#running;
  }

  /** When it may be tried again; in the past where nothing is against it. */
  get untilMs(): number {
    return this.#untilMs;
  }

  /** Whether a call may go there. */
  isOpen(nowMs: number): boolean {
    return nowMs >= this.#untilMs && this.#trialMs === null;
  }

  began(nowMs: number): void {
    this.#running++;
    if (this.#ejections > 0) this.#trialMs ??= nowMs;
  }

  /** The call is over, whatever came of it; without a word on how it went, the next one is the trial. */
  ended(beganMs: number): void {
    this.#running--;
    if (this.#trialMs === beganMs) this.#trialMs = null;
  }

  /**
   * A good reply has begun: it is there. That its replies break off, time and again, is not forgotten by
   * that.
   */
  answered(): void {
    this.#failures = this.#ejections = 0;
    this.#untilMs = Number.NEGATIVE_INFINITY;
    this.#trialMs = null;
    if (this.#broken === 0) this.#problem = null;
  }

  /** A reply was good to its end. */
  succeeded(): void {
    this.#broken = 0;
    this.answered();
  }

  /**
   * @param problem what went wrong, in a word.
   * @param outForMs for how long it is known to be of no use; null: as failures in a row suggest.
   */
  failed(beganMs: number, nowMs: number, problem: string, outForMs: number | null): void {
    this.#failures++;
    this.#count(beganMs, nowMs, problem, outForMs);
  }

  /** A reply that had begun well broke off. */
  broke(beganMs: number, nowMs: number, problem: string): void {
    this.#broken++;
    this.#count(beganMs, nowMs, problem, null);
  }

  #count(beganMs: number, nowMs: number, problem: string, outForMs: number | null): void {
    this.#problem = problem;
    // A hundred calls that one outage ends are one reason to eject it: those that began before tell nothing
    // new.
    if (nowMs < this.#untilMs || beganMs < this.#ejectedMs) {
      this.#untilMs = Math.max(this.#untilMs, nowMs + (outForMs ?? 0));
      return;
    }
    if (outForMs !== null) return this.#eject(nowMs, outForMs);
    if (Math.max(this.#failures, this.#broken) < EJECT_AFTER_FAILURES && this.#ejections === 0) return;
    this.#eject(nowMs, Math.min(EJECTION_MS * 2 ** this.#ejections, EJECTION_MAX_MS));
  }

  /** For people: `ejected` until it may be tried again, `on_trial` from then until somebody has. */
  standing(nowMs: number): CircuitState {
    const failures = this.#failures + this.#broken;
    const state =
      nowMs < this.#untilMs
        ? 'ejected'
        : this.#ejections > 0
          ? 'on_trial'
          : failures > 0
            ? 'failing'
            : 'good';
    return {
      state,
      problem: this.#problem,
      failures,
      ejected_ms: state === 'ejected' ? Math.ceil(this.#untilMs - nowMs) : 0,
      running: this.#running,
    };
  }

  #eject(nowMs: number, forMs: number): void {
    this.#ejections++;
    this.#ejectedMs = nowMs;
    this.#untilMs = nowMs + forMs;
  }
}

export type CircuitState = {
  state: 'good' | 'failing' | 'ejected' | 'on_trial';
  /** What went wrong last, in a word; null: nothing since it was last good. */
  problem: string | null;
  /** In a row. */
  failures: number;
  ejected_ms: number;
  running: number;
};

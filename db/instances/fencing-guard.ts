import { DEAD_AFTER_MS, DELAY_MAX_MS, FENCING_MARGIN_MS, FENCING_TICK_MS, STALL_MAX_MS } from '#db/bounds.ts';

/**
 * Decides whether this process may still write for its instance.
 *
 * A process that did not run for a while (stopped by a signal, or its machine paused) may have been declared
 * dead meanwhile: its calls are abandoned and charged, its leases given to others. When it wakes, the event
 * loop delivers data from upstreams before any timer runs and before the database answers. Hence every write
 * to a client asks the guard first, which costs one comparison. The guard is in one of three states:
 *
 * - *valid*: either this process has run without a break, or a heartbeat that was answered is so recent that
 *   no
 *   other instance can have watched this one stand still for long enough.
 * - *suspect*: the process has stood still, and the newest answered heartbeat is too old. No part of a reply
 *   is sent until a heartbeat that was sent after waking has been answered.
 * - *fenced*: the instance was declared dead, or none was registered yet. Ends when this process registers
 *   the
 *   next instance.
 *
 * Transitions: fenced → valid by {@link FencingGuard.begin}; valid → suspect by any look at the clock that
 * finds the process to have stood still; suspect → valid by {@link FencingGuard.confirm}; any → fenced by
 * {@link FencingGuard.fence}.
 *
 * A database that is away is no reason for suspicion as long as this process runs. The price: an instance
 * that can't reach the database while others can is declared dead, and delivers replies until it learns that.
 * Those under a hard limit are charged with their whole reservation then, so that no hard limit is
 * exceeded, and others by estimate; nothing is charged twice; but a client may get the end of a reply that
 * the log calls abandoned. A stricter rule would cut every running reply in each outage of the database,
 * which is far more common. Pure.
 */
export class FencingGuard {
  #state: 'valid' | 'suspect' | 'fenced' = 'fenced';
  /** Valid until then, unless it is renewed before; -Infinity while it is not valid. */
  #validUntilMs = -Infinity;
  /** No other instance can have declared this one dead before this moment. */
  #confirmedUntilMs = -Infinity;
  #suspectSinceMs = 0;
  #tickedMs = Infinity;
  #delayMs = 0;
  readonly #waiting = new Set<(isValid: boolean) => void>();

  /** How late the event loop was for a tick, in milliseconds up to DELAY_MAX_MS, less the time since then. */
  get delayMs(): number {
    return this.#delayMs;
  }

  get isFenced(): boolean {
    return this.#state === 'fenced';
  }

  /** Whether this process may write at this moment. All times are of the monotonic clock. */
  isValid(nowMs: number): boolean {
    if (nowMs <= this.#validUntilMs) return true;
    if (this.#state === 'valid') this.#suspect(nowMs);
    return false;
  }

  /**
   * A new instance is active, which at this moment had not been declared dead: it was registered, or
   * answered.
   */
  begin(aliveMs: number): void {
    this.#confirmedUntilMs = aliveMs + DEAD_AFTER_MS - FENCING_MARGIN_MS;
    // A delay of the instance before.
    this.#delayMs = 0;
    this.#renew(aliveMs);
  }

  /** To be called every FENCING_TICK_MS while this process runs. */
  tick(nowMs: number): void {
    const lateMs = nowMs - this.#tickedMs - FENCING_TICK_MS;
    this.#delayMs = Math.max(0, Math.min(lateMs, DELAY_MAX_MS), this.#delayMs - FENCING_TICK_MS);
    this.#tickedMs = nowMs;
    if (this.isValid(nowMs)) this.#validUntilMs = Math.max(nowMs + STALL_MAX_MS, this.#confirmedUntilMs);
  }

  /** A heartbeat that was sent at `sentMs` was answered. */
  confirm(sentMs: number, nowMs: number): void {
    if (this.#state === 'fenced') return;
    // Detects a pause that began after the heartbeat was sent.
    const wasValid = this.isValid(nowMs);
    if (!wasValid && sentMs < this.#suspectSinceMs) return;
    this.#confirmedUntilMs = sentMs + DEAD_AFTER_MS - FENCING_MARGIN_MS;
    this.#renew(nowMs);
  }

  /** This instance was declared dead. */
  fence(): void {
    this.#state = 'fenced';
    this.#validUntilMs = -Infinity;
    this.#resolve(false);
  }

  /** Calls back once the state is not suspect, which may be at once: true when valid, false when fenced. */
  whenKnown(callback: (isValid: boolean) => void): void {
    if (this.#state === 'suspect') this.#waiting.add(callback);
    else callback(this.#state === 'valid');
  }

  #suspect(nowMs: number): void {
    this.#state = 'suspect';
    this.#validUntilMs = -Infinity;
    this.#suspectSinceMs = nowMs;
  }

  #renew(nowMs: number): void {
    this.#state = 'valid';
    this.#validUntilMs = Math.max(nowMs + STALL_MAX_MS, this.#confirmedUntilMs);
    this.#resolve(true);
  }

  #resolve(isValid: boolean): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback(isValid);
  }
}

/** Reports to a guard that this process runs, for as long as it does. */
export function keepTicking(guard: FencingGuard): { close(): void } {
  const tick = (): void => guard.tick(performance.now());
  tick();
  const timer = setInterval(tick, FENCING_TICK_MS);
  timer.unref();
  return { close: () => clearInterval(timer) };
}

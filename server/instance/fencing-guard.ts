import { DEAD_AFTER_MS } from '#db/bounds.ts';
import { LIFE_MARGIN_MS, STALL_MAX_MS, FENCING_TICK_MS } from '#server/instance/bounds.ts';

/**
 * Whether this process may still speak for its instance.
 *
 * A process that did not run for a while (stopped by a signal, or its machine paused) may have
 * been declared dead meanwhile: its calls are ended and charged, its leases given to others. When
 * it wakes, the event loop hands it what upstreams have sent before any timer or the store says
 * so. Hence every write to a client asks here first, by one comparison:
 *
 * - *good*: either this process has run without a break, or a heartbeat that was answered is so
 *   young that nobody can have watched us stand still for long enough.
 * - *doubtful*: it has stood still, and the last answered heartbeat is too old. Nothing of a reply
 *   goes out until a heartbeat that was sent after waking has been answered.
 * - *lost*: it was declared dead. Ends with the next instance that this process takes.
 *
 * A store that is away is no reason for doubt as long as this process runs. What is lost by that:
 * an instance that can't reach the store while others can is declared dead and delivers on until
 * it hears of it. Its replies are charged with their whole hold then, which bounds what they may
 * spend, so no limit is exceeded and nothing is charged twice; but a client may get an end that
 * the log calls abandoned. Strictness here would cut every running reply in each outage of the
 * store, which is the far more common misfortune. Pure.
 */
export class FencingGuard {
  #state: 'good' | 'doubtful' | 'lost' = 'lost';
  /** Good until then, unless something is heard of before; -Infinity while it is not good. */
  #goodUntilMs = -Infinity;
  /** Nobody can have declared us dead before this moment. */
  #confirmedUntilMs = -Infinity;
  #doubtSinceMs = 0;
  readonly #waiting = new Set<(isAlive: boolean) => void>();

  get isLost(): boolean {
    return this.#state === 'lost';
  }

  /** Whether something may be said at this moment. All times are of the monotonic clock. */
  isGood(nowMs: number): boolean {
    if (nowMs <= this.#goodUntilMs) return true;
    if (this.#state === 'good') this.#doubt(nowMs);
    return false;
  }

  /**
   * A new instance is in place, which at this moment had not been declared dead: it was registered, or
   * answered.
   */
  begin(aliveMs: number): void {
    this.#confirmedUntilMs = aliveMs + DEAD_AFTER_MS - LIFE_MARGIN_MS;
    this.#rise(aliveMs);
  }

  /** Told several times a second that this process runs. */
  tick(nowMs: number): void {
    if (this.isGood(nowMs)) this.#goodUntilMs = Math.max(nowMs + STALL_MAX_MS, this.#confirmedUntilMs);
  }

  /** A heartbeat that was sent at this moment was answered. */
  confirm(sentMs: number, nowMs: number): void {
    if (this.#state === 'lost') return;
    // Detects a pause that began after the heartbeat was sent.
    const wasGood = this.isGood(nowMs);
    if (!wasGood && sentMs < this.#doubtSinceMs) return;
    this.#confirmedUntilMs = sentMs + DEAD_AFTER_MS - LIFE_MARGIN_MS;
    this.#rise(nowMs);
  }

  /** This instance was declared dead. */
  lose(): void {
    this.#state = 'lost';
    this.#goodUntilMs = -Infinity;
    this.#tell(false);
  }

  /** Calls back once it is known, or at once when it is: true when good, false when lost. */
  whenKnown(callback: (isAlive: boolean) => void): void {
    if (this.#state === 'doubtful') this.#waiting.add(callback);
    else callback(this.#state === 'good');
  }

  #doubt(nowMs: number): void {
    this.#state = 'doubtful';
    this.#goodUntilMs = -Infinity;
    this.#doubtSinceMs = nowMs;
  }

  #rise(nowMs: number): void {
    this.#state = 'good';
    this.#goodUntilMs = Math.max(nowMs + STALL_MAX_MS, this.#confirmedUntilMs);
    this.#tell(true);
  }

  #tell(isAlive: boolean): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback(isAlive);
  }
}

/** Tells a life that this process runs, for as long as it does. */
export function keepTicking(life: FencingGuard): { close(): void } {
  const timer = setInterval(() => life.tick(performance.now()), FENCING_TICK_MS);
  timer.unref();
  return { close: () => clearInterval(timer) };
}

import { INFORMATIONAL_REPLIES_MAX, PROGRESS_TIMEOUT_MS } from '#server/relay/bounds.ts';

export type ReplyTimeouts = { firstByteMs: number; idleMs: number; totalMs: number };

/**
 * The times of one reply, compared with its deadlines. An upstream has to reply in time, to keep
 * sending, to make progress (comments don't count), and to end. All by the monotonic clock.
 */
export class ReplyClock {
  readonly startedMs = performance.now();
  #lastByteMs = this.startedMs;
  #progressMs = this.startedMs;
  #progressSeen = 0;
  #informational = 0;
  #headAfterMs: number | null = null;

  /** From the request to the head; null until the head is received. */
  get headAfterMs(): number | null {
    return this.#headAfterMs;
  }

  /** The reply is still to come, and its deadline stays. @returns false: too many have come instead. */
  informationalCame(): boolean {
    this.#informational++;
    return this.#informational <= INFORMATIONAL_REPLIES_MAX;
  }

  /** How long the head has been there. */
  headAgeMs(nowMs: number): number {
    return this.#headAfterMs === null ? 0 : nowMs - this.startedMs - this.#headAfterMs;
  }

  headCame(): void {
    this.#lastByteMs = this.#progressMs = performance.now();
    this.#headAfterMs = this.#lastByteMs - this.startedMs;
  }

  bytesCame(): void {
    this.#lastByteMs = performance.now();
  }

  /** The silence until now was not the upstream's: it was made to wait. */
  forgive(): void {
    this.#lastByteMs = this.#progressMs = performance.now();
  }

  /** Whether the whole reply has taken too long. */
  isOver(nowMs: number, timeouts: ReplyTimeouts): boolean {
    return nowMs - this.startedMs > timeouts.totalMs;
  }

  /** Whether the upstream has been silent for too long; `progress` counts its events so far. */
  isOverdue(nowMs: number, timeouts: ReplyTimeouts, progress: number | null): boolean {
    const silentMs = nowMs - this.#lastByteMs;
    if (this.#headAfterMs === null) return silentMs > timeouts.firstByteMs;
    if (silentMs > timeouts.idleMs) return true;
    if (progress === null) return false;
    if (progress > this.#progressSeen) {
      this.#progressSeen = progress;
      this.#progressMs = nowMs;
    }
    return nowMs - this.#progressMs > PROGRESS_TIMEOUT_MS;
  }
}

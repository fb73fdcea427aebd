import { DEADLINE_TICK_MS } from '#server/relay/bounds.ts';
import { type Membership, Registry } from '#db/registry.ts';

/** Something that runs and may run out of time. */
export type DeadlineTarget = { checkDeadlines(nowMs: number): void };

/** A watched target, to end its watch. */
export type Deadline = Membership<DeadlineTarget>;

/**
 * One timer for the deadlines of all running requests. A timer for each deadline of each request
 * would be set and cleared several times per chunk; comparing a few numbers twenty times a second
 * costs less than one of them and is exact to the tick.
 */
export class Deadlines {
  readonly #watched = new Registry<DeadlineTarget>();
  #timer: NodeJS.Timeout | undefined;

  watch(target: DeadlineTarget): Deadline {
    this.#timer ??= setInterval(() => this.#tickAfterReading(), DEADLINE_TICK_MS);
    return this.#watched.add(target);
  }

  /** Does nothing for a target that was never watched, or is no longer. */
  unwatch(deadline: Deadline | null): void {
    if (deadline) this.#watched.delete(deadline);
    if (this.#watched.size > 0 || !this.#timer) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /**
   * The event loop runs timers before it reads sockets. After a stall of the process the silence that a timer
   * sees is its own: what upstreams and clients sent meanwhile is waiting. So it is read first.
   */
  #tickAfterReading(): void {
    setImmediate(() => this.#tick());
  }

  #tick(): void {
    const nowMs = performance.now();
    for (const target of this.#watched.members()) target.checkDeadlines(nowMs);
  }
}

import { PENDING_PREDICATES_MAX } from '#server/read-model/bounds.ts';

type Pending = { predicate: () => boolean; end: (holds: boolean) => void };

/**
 * A condition variable: callers wait until their predicate holds. Call `notifyAll` after each state change.
 */
export class ConditionVariable {
  readonly #waiting = new Set<Pending>();

  /** Checks the predicates of all waiting callers. */
  notifyAll(): void {
    for (const { predicate, end } of this.#waiting) if (predicate()) end(true);
  }

  /**
   * Resolves when the predicate holds, or after the timeout; at once if too many callers are waiting.
   * @returns whether it holds.
   */
  until(predicate: () => boolean, timeoutMs: number): Promise<boolean> {
    if (predicate()) return Promise.resolve(true);
    if (this.#waiting.size >= PENDING_PREDICATES_MAX) return Promise.resolve(false);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const end = (holds: boolean): void => {
      clearTimeout(timer);
      this.#waiting.delete(pending);
      resolve(holds);
    };
    const pending = { predicate, end };
    const timer = setTimeout(end, timeoutMs, false);
    this.#waiting.add(pending);
    return promise;
  }
}

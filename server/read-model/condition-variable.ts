import { PENDING_PREDICATES_MAX } from '#server/read-model/bounds.ts';

type Waiter = { predicate: () => boolean; end: (holds: boolean) => void };

/** Resolves callers once their predicate holds. Whatever may change a predicate calls `notifyAll`. */
export class ConditionVariable {
  readonly #waiting = new Set<Waiter>();

  /** Checks the predicates of all callers. */
  notifyAll(): void {
    for (const { predicate, end } of this.#waiting) if (predicate()) end(true);
  }

  /**
   * Resolves when the predicate holds, or after the timeout; at once where too many callers wait already.
   * @returns whether it holds.
   */
  until(predicate: () => boolean, timeoutMs: number): Promise<boolean> {
    if (predicate()) return Promise.resolve(true);
    if (this.#waiting.size >= PENDING_PREDICATES_MAX) return Promise.resolve(false);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const end = (holds: boolean): void => {
      clearTimeout(timer);
      this.#waiting.delete(waiter);
      resolve(holds);
    };
    const waiter = { predicate, end };
    const timer = setTimeout(end, timeoutMs, false);
    this.#waiting.add(waiter);
    return promise;
  }
}

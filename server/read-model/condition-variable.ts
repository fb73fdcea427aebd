import { WAITERS_MAX } from '#server/read-model/bounds.ts';

type Waiter = { isSo: () => boolean; end: (isSo: boolean) => void };

/** Those who wait until something is so. Whoever may have made it so has them look. */
export class ConditionVariable {
  readonly #waiting = new Set<Waiter>();

  /** Has all of them look whether it is so by now. */
  look(): void {
    for (const { isSo, end } of this.#waiting) if (isSo()) end(true);
  }

  /**
   * Resolves when it is so, or after a while; at once where too many wait already.
   * @returns whether it is.
   */
  until(isSo: () => boolean, patienceMs: number): Promise<boolean> {
    if (isSo()) return Promise.resolve(true);
    if (this.#waiting.size >= WAITERS_MAX) return Promise.resolve(false);
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const end = (is: boolean): void => {
      clearTimeout(timer);
      this.#waiting.delete(waiter);
      resolve(is);
    };
    const waiter = { isSo, end };
    const timer = setTimeout(end, patienceMs, false);
    this.#waiting.add(waiter);
    return promise;
  }
}

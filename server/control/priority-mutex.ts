/**
 * Who goes before whom: those who sign in or out and those who administrate don't wait behind everybody else.
 */
export type Priority = 'first' | 'ordinary';

/**
 * One thing at a time, in the order in which they were asked for; those of the first lane before all others
 * that wait.
 */
export class PriorityMutex {
  readonly #waiting: Record<Priority, (() => Promise<void>)[]> = { first: [], ordinary: [] };
  #isTaken = false;

  /** @returns what `work` returns, when its turn has come. @throws whatever it throws. */
  take<T>(lane: Priority, work: () => T | Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting[lane].push(() => Promise.try(work).then(resolve, reject));
    void this.#run();
    return promise;
  }

  /** Never throws: what a turn throws is its own. */
  async #run(): Promise<void> {
    if (this.#isTaken) return;
    this.#isTaken = true;
    for (let next = this.#next(); next; next = this.#next()) await next();
    this.#isTaken = false;
  }

  #next(): (() => Promise<void>) | undefined {
    return this.#waiting.first.shift() ?? this.#waiting.ordinary.shift();
  }
}

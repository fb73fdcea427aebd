/** `first` goes before `ordinary`: sign-ins and changes by administrators don't wait behind all others. */
export type Priority = 'first' | 'ordinary';

/** Runs one task at a time: tasks of the first priority before ordinary ones, each in FIFO order. */
export class PriorityMutex {
  readonly #waiting: Record<Priority, (() => Promise<void>)[]> = { first: [], ordinary: [] };
  #isLocked = false;

  /** @returns what `work` returns, once it held the lock. @throws what `work` throws. */
  run<T>(priority: Priority, work: () => T | Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#waiting[priority].push(() => Promise.try(work).then(resolve, reject));
    void this.#drain();
    return promise;
  }

  /** Never throws: an error of a task rejects the promise of that task. */
  async #drain(): Promise<void> {
    if (this.#isLocked) return;
    this.#isLocked = true;
    for (let next = this.#next(); next; next = this.#next()) await next();
    this.#isLocked = false;
  }

  #next(): (() => Promise<void>) | undefined {
    return this.#waiting.first.shift() ?? this.#waiting.ordinary.shift();
  }
}

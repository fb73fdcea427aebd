/** Wakes the one who waits. A ring that nobody waited for is not lost: the next wait ends at once. */
export class AutoResetEvent {
  #rung = false;
  #wake: (() => void) | undefined;

  set(): void {
    this.#rung = true;
    this.#wake?.();
  }

  /** Resolves at a ring, or after `timeoutMs`. */
  async wait(timeoutMs: number): Promise<void> {
    if (!this.#rung) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const timer = setTimeout(resolve, timeoutMs);
      this.#wake = resolve;
      await promise;
      clearTimeout(timer);
    }
    this.#wake = undefined;
    this.#rung = false;
  }
}

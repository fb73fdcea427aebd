/** Caps the concurrent holders per key. */
export class KeyedSemaphore {
  readonly #held = new Map<string, number>();

  /** @returns a function that releases the acquired place; null where `max` are held. */
  acquire(key: string, max: number): (() => void) | null {
    const held = this.#held.get(key) ?? 0;
    if (held >= max) return null;
    this.#held.set(key, held + 1);
    return () => {
      const left = (this.#held.get(key) as number) - 1;
      if (left === 0) this.#held.delete(key);
      else this.#held.set(key, left);
    };
  }
}

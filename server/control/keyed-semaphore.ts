/** How many of something each has at once, of those that one may have. */
export class KeyedSemaphore {
  readonly #taken = new Map<string, number>();

  /** Takes one more. @returns what gives it back; null: `max` are taken. */
  take(holder: string, max: number): (() => void) | null {
    const taken = this.#taken.get(holder) ?? 0;
    if (taken >= max) return null;
    this.#taken.set(holder, taken + 1);
    return () => {
      const left = (this.#taken.get(holder) as number) - 1;
      if (left === 0) this.#taken.delete(holder);
      else this.#taken.set(holder, left);
    };
  }
}

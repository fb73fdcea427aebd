const HOUR_MS = 3_600_000;

/**
 * How many changes each person has made in this hour, as far as this process knows. Pure: time is handed in.
 */
export class ChangeRate {
  readonly #max: number;
  readonly #made = new Map<string, number>();
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(perHourMax: number) {
    this.#max = perHourMax;
  }

  /**
   * Counts a change.
   * @param nowMs of a clock that is never set.
   * @returns milliseconds until the person may make another; null: this one may be made.
   */
  count(person: string, nowMs: number): number | null {
    if (nowMs >= this.#untilMs) {
      this.#made.clear();
      this.#untilMs = nowMs + HOUR_MS;
    }
    const made = this.#made.get(person) ?? 0;
    if (made >= this.#max) return this.#untilMs - nowMs;
    this.#made.set(person, made + 1);
    return null;
  }
}

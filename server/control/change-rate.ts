const HOUR_MS = 3_600_000;

/** Limits the changes of each member per hour, in this process. Pure: the time is a parameter. */
export class ChangeRate {
  readonly #max: number;
  readonly #made = new Map<string, number>();
  #untilMs = Number.NEGATIVE_INFINITY;

  constructor(perHourMax: number) {
    this.#max = perHourMax;
  }

  /**
   * Counts a change.
   * @param nowMs of the monotonic clock.
   * @returns milliseconds until the member may make a change; null: this one is allowed.
   */
  count(member: string, nowMs: number): number | null {
    if (nowMs >= this.#untilMs) {
      this.#made.clear();
      this.#untilMs = nowMs + HOUR_MS;
    }
    const made = this.#made.get(member) ?? 0;
    if (made >= this.#max) return this.#untilMs - nowMs;
    this.#made.set(member, made + 1);
    return null;
  }
}

/** A ring buffer of counts per second. */
export class SecondsRing {
  readonly #counts: Float64Array;
  /** The second of each slot. */
  readonly #seconds: Float64Array;

  /** @param length the number of seconds kept. */
  constructor(length: number) {
    this.#counts = new Float64Array(length);
    this.#seconds = new Float64Array(length).fill(-1);
  }

  /** Ignores seconds older than the buffer. */
  add(second: number, count: number): void {
    const slot = second % this.#counts.length;
    const there = this.#seconds[slot] as number;
    if (there > second) return;
    if (there < second) {
      this.#seconds[slot] = second;
      this.#counts[slot] = 0;
    }
    this.#counts[slot] = (this.#counts[slot] as number) + count;
  }

  /** The counts of `count` seconds up to `second`, oldest first. */
  upTo(second: number, count: number): number[] {
    return Array.from({ length: count }, (_, index) => {
      const each = second - count + 1 + index;
      const slot = each % this.#counts.length;
      return each >= 0 && this.#seconds[slot] === each ? (this.#counts[slot] as number) : 0;
    });
  }
}

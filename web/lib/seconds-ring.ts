/** How many there were in each of the last seconds, in a ring that forgets by itself. Pure. */
export class SecondsRing {
  readonly #counts: Float64Array;
  /** Which second each place is of. */
  readonly #seconds: Float64Array;

  /** @param length how many seconds are kept. */
  constructor(length: number) {
    this.#counts = new Float64Array(length);
    this.#seconds = new Float64Array(length).fill(-1);
  }

  /** What is older than the ring is left out. */
  add(second: number, count: number): void {
    const place = second % this.#counts.length;
    const there = this.#seconds[place] as number;
    if (there > second) return;
    if (there < second) {
      this.#seconds[place] = second;
      this.#counts[place] = 0;
    }
    this.#counts[place] = (this.#counts[place] as number) + count;
  }

  /** The counts of so many seconds, the last of them being `second`, the oldest first. */
  upTo(second: number, count: number): number[] {
    return Array.from({ length: count }, (_, index) => {
      const each = second - count + 1 + index;
      const place = each % this.#counts.length;
      return each >= 0 && this.#seconds[place] === each ? (this.#counts[place] as number) : 0;
    });
  }
}

/** A sum of integers that leaves no exact integer, and is a number as long as it can be. */
export class ExactSum {
  #large = 0n;
  #small = 0;

  /** @param more a safe integer. */
  add(more: number): void {
    if (Math.abs(more) > PART_MAX) this.#large += BigInt(more);
    else this.#small += more;
    if (Math.abs(this.#small) <= PART_MAX) return;
    this.#large += BigInt(this.#small);
    this.#small = 0;
  }

  get value(): bigint {
    return this.#large + BigInt(this.#small);
  }
}

/** Two of these are exact together. */
const PART_MAX = 2 ** 52;

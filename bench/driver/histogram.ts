// Each doubling is cut into this many steps, so a value is known to 0.1 %: at 20 ms that is 20 µs,
// well below the smallest goal (0.1 ms) that is read from it.
const STEPS_BITS = 10;
const STEPS = 1 << STEPS_BITS;
const MAX_US = 2 ** 32 - 1;

/** Microseconds at which these shares of the values lie; null when there was no value. */
export type Quantiles = {
  count: number;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  max: number;
};

/** A histogram of microseconds: constant size, constant time per value, at most 0.1 % off. */
export class Histogram {
  private readonly counts = new Uint32Array((32 - STEPS_BITS + 1) * STEPS);
  private count = 0;
  private max = 0;

  add(us: number): void {
    const value = Math.min(MAX_US, Math.max(0, Math.round(us)));
    // Below STEPS the value is its own index; above, the exponent is the group and the bits behind
    // the leading one, cut to STEPS_BITS, are the place in it.
    const group = Math.max(0, 32 - STEPS_BITS - Math.clz32(value));
    const index = group === 0 ? value : group * STEPS + ((value >>> (group - 1)) - STEPS);
    this.counts[index] = (this.counts[index] ?? 0) + 1;
    this.count++;
    this.max = Math.max(this.max, value);
  }

  quantiles(): Quantiles {
    return {
      count: this.count,
      p50: this.quantile(0.5),
      p90: this.quantile(0.9),
      p99: this.quantile(0.99),
      max: this.max,
    };
  }

  private quantile(share: number): number | null {
    let left = Math.ceil(share * this.count);
    if (left === 0) return null;
    for (let index = 0; index < this.counts.length; index++) {
      left -= this.counts[index] as number;
      if (left <= 0) return lowestOf(index);
    }
    return this.max;
  }
}

/** The smallest value that is counted at `index`. */
function lowestOf(index: number): number {
  const group = Math.floor(index / STEPS);
  return group === 0 ? index : ((index % STEPS) + STEPS) * 2 ** (group - 1);
}

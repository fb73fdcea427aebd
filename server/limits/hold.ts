import { type Amounts, unitsReserved, unitsSettled, type Usage } from '#db/limits/meters.ts';
import type { Counter } from '#server/limits/counter.ts';

/** What an admitted call may spend until it settles, and of which leases. It ends once. */
export class Hold {
  /** The UTC minute of the admission: its windows are those that the call is charged to. */
  readonly minute: number;
  readonly counters: readonly Counter[];
  readonly #units: number[];
  #amounts: Amounts;
  #isOver = false;

  constructor(counters: readonly Counter[], units: number[], amounts: Amounts, minute: number) {
    this.counters = counters;
    this.#units = units;
    this.#amounts = amounts;
    this.minute = minute;
  }

  get tokens(): number {
    return this.#amounts.tokens;
  }

  get cost(): number {
    return this.#amounts.cost;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** More was taken of these counters for this call. */
  extend(counters: readonly Counter[], more: Amounts): void {
    for (const counter of counters) {
      const index = this.counters.indexOf(counter);
      this.#units[index] = (this.#units[index] as number) + unitsReserved(counter.meter, more);
    }
    this.#amounts = { tokens: this.#amounts.tokens + more.tokens, cost: this.#amounts.cost + more.cost };
  }

  /** The call's ending is in the log for good: it has spent this, and the rest is free again. */
  settle(usage: Usage): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const [index, counter] of this.counters.entries()) {
      counter.settle(this.#units[index] as number, unitsSettled(counter.meter, usage));
    }
  }

  /** The call was never recorded, so nothing of it is spent. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const [index, counter] of this.counters.entries()) counter.release(this.#units[index] as number);
  }
}

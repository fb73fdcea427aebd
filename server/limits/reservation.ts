import type { ObservedRejection } from '#db/events/admission.ts';
import { type Amounts, unitsReserved, unitsSettled, type Usage } from '#db/limits/meters.ts';
import type { Counter } from '#server/limits/counter.ts';

const NONE: readonly never[] = [];

/**
 * The units that an admitted call holds of its limits until it is settled or released, which happens
 * once. Events and the API name these units `hold` and `held`. Pure.
 */
export class Reservation {
  /** Those of its observed limits: each of one limit, and none of those that would have rejected the call. */
  observed: readonly Reservation[] = NONE;
  /** The observed limits that would have rejected the call. */
  rejections: readonly ObservedRejection[] = NONE;
  /** The UTC minute of the admission: the call is charged to the windows of that minute. */
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
    for (const counter of counters) counter.reservations++;
  }

  get tokens(): number {
    return this.#amounts.tokens;
  }

  get cost(): number {
    return this.#amounts.cost;
  }

  /** Whether other calls may need its units soon, since one of its limits has few free ones here. */
  get isScarce(): boolean {
    return this.counters.some((counter) => counter.isScarce) || this.observed.some((each) => each.isScarce);
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  /** More units of these counters were reserved for the call. */
  extend(counters: readonly Counter[], more: Amounts): void {
    for (const counter of counters) {
      const index = this.counters.indexOf(counter);
      this.#units[index] = (this.#units[index] as number) + unitsReserved(counter.meter, more);
    }
    this.#amounts = { tokens: this.#amounts.tokens + more.tokens, cost: this.#amounts.cost + more.cost };
  }

  /** Adds what its observed limits have decided. */
  observe(observed: readonly Reservation[], rejections: readonly ObservedRejection[]): void {
    this.observed = observed;
    this.rejections = rejections;
  }

  /** The end of the call is durable in the log: its usage is charged, and the rest is free again. */
  settle(usage: Usage): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.counters.forEach((counter, index) => {
      counter.reservations--;
      counter.settle(this.#units[index] as number, unitsSettled(counter.meter, usage));
    });
    for (const each of this.observed) each.settle(usage);
  }

  /** The call is not in the log, so it is charged nothing. */
  release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.counters.forEach((counter, index) => {
      counter.reservations--;
      counter.release(this.#units[index] as number);
    });
    for (const each of this.observed) each.release();
  }
}

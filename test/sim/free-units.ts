import type { Instance } from './instance.ts';
import type { SimStore } from './store.ts';
import type { Truth } from './truth.ts';

/** Of each allowance, what was free since when: neither spent nor held anywhere that can be asked. */
export class FreeUnits {
  readonly #store: SimStore;
  readonly #truth: Truth;
  readonly #instances: readonly Instance[];
  readonly #histories = new Map<string, { atMs: number; units: number }[]>();

  constructor(store: SimStore, truth: Truth, instances: readonly Instance[]) {
    this.#store = store;
    this.#truth = truth;
    this.#instances = instances;
  }

  /** Looks at everything once more, after each thing that happened. */
  look(nowMs: number): void {
    for (const instance of this.#instances) if (!instance.isReachable) instance.lastAwayMs = nowMs;
    for (const [key, row] of this.#store.allowances) {
      let units = row.cap - (this.#truth.settled.get(key) ?? 0);
      const leases = this.#store.leases.get(row.id);
      for (const instance of this.#instances) {
        units -= instance.transit.get(key) ?? 0;
        const lease = leases?.get(instance.id);
        if (!lease || lease.closed) continue;
        // What can't be asked and said to keep only what it holds is taken at its word.
        if (!instance.isReachable && lease.strict) units -= lease.granted - lease.returned - lease.used;
        else units -= instance.counters.get(key)?.held ?? 0;
      }
      const history = this.#histories.get(key) ?? [];
      if (history.length === 0) this.#histories.set(key, history);
      if (history.at(-1)?.units !== units) history.push({ atMs: nowMs, units });
    }
  }

  /** The least that was free at any moment since then; -Infinity where it was not known before. */
  leastSince(key: string, sinceMs: number): number {
    let least = Infinity;
    for (const { atMs, units } of this.#histories.get(key)?.toReversed() ?? []) {
      least = Math.min(least, units);
      if (atMs <= sinceMs) return least;
    }
    return -Infinity;
  }
}

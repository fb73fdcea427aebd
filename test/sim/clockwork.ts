import { randomFrom } from '../chaos/random.ts';

/** What happens when: events in the order of simulated time, and the one source of chance. */
export class Clockwork {
  nowMs = 0;
  steps = 0;
  readonly #random: { below(bound: number): number };
  readonly #heap: { atMs: number; order: number; run: () => void }[] = [];
  #order = 0;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
  }

  chance(probability: number): boolean {
    return this.#random.below(1_000_000) < probability * 1_000_000;
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.#random.below(high - low + 1);
  }

  pick<T>(from: readonly T[]): T {
    return from[this.#random.below(from.length)] as T;
  }

  /** Lets something happen after a time; of things at the same time, in the order of these calls. */
  after(ms: number, run: () => void): void {
    const heap = this.#heap;
    const event = { atMs: this.nowMs + ms, order: this.#order++, run };
    let index = heap.push(event) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (!isBefore(event, heap[above] as typeof event)) break;
      heap[index] = heap[above] as typeof event;
      index = above;
    }
    heap[index] = event;
  }

  /** Does what is next. @returns false when nothing is, up to a moment. */
  step(untilMs: number): boolean {
    const heap = this.#heap;
    const [next] = heap;
    if (!next || next.atMs > untilMs) return false;
    const last = heap.pop() as typeof next;
    if (heap.length > 0) {
      let index = 0;
      for (;;) {
        let below = 2 * index + 1;
        if (below >= heap.length) break;
        if (below + 1 < heap.length && isBefore(heap[below + 1] as typeof next, heap[below] as typeof next))
          below++;
        if (!isBefore(heap[below] as typeof next, last)) break;
        heap[index] = heap[below] as typeof next;
        index = below;
      }
      heap[index] = last;
    }
    this.nowMs = next.atMs;
    this.steps++;
    next.run();
    return true;
  }
}

function isBefore(one: { atMs: number; order: number }, other: { atMs: number; order: number }): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order);
}

/**
 * Calls each entry once, a fixed time after it was put in. All entries of a line wait equally
 * long, so they leave in the order in which they came, and one timer of 1 ms serves thousands of
 * streams where a timer each would cost more than the bytes they send.
 */
export type DelayLine<T> = {
  /** `sinceMs` is when the wait began; a stream that passes its last due time keeps its pace. */
  push: (item: T, sinceMs: number) => void;
};

type Entry<T> = { item: T; dueMs: number; next: Entry<T> | null };

/** @param onDue gets the item and the time at which it was due, both by `performance.now()`. */
export function createDelayLine<T>(delayMs: number, onDue: (item: T, dueMs: number) => void): DelayLine<T> {
  let first: Entry<T> | null = null;
  let last: Entry<T> | null = null;
  let timer: NodeJS.Timeout | null = null;

  function release(): void {
    const nowMs = performance.now();
    while (first && first.dueMs <= nowMs) {
      const { item, dueMs, next } = first;
      first = next;
      if (!next) last = null;
      onDue(item, dueMs);
    }
    if (!first && timer) {
      clearInterval(timer);
      timer = null;
    }
  }

  return {
    push(item, sinceMs) {
      const entry = { item, dueMs: sinceMs + delayMs, next: null };
      if (last) last.next = entry;
      else first = entry;
      last = entry;
      timer ??= setInterval(release, 1);
    },
  };
}

import { useSyncExternalStore } from 'react';

type Clock = { subscribe: (listener: () => void) => () => void; now: () => number };

/** One timer per interval, shared by all components. */
const clocks = new Map<number, Clock>();

function clockOf(everyMs: number): Clock {
  const known = clocks.get(everyMs);
  if (known) return known;
  const listeners = new Set<() => void>();
  let timer: ReturnType<typeof setInterval> | undefined;
  const clock: Clock = {
    subscribe: (listener) => {
      listeners.add(listener);
      timer ??= setInterval(() => {
        for (const each of listeners) each();
      }, everyMs);
      return () => {
        listeners.delete(listener);
        if (listeners.size > 0) return;
        clearInterval(timer);
        timer = undefined;
      };
    },
    now: () => Math.floor(Date.now() / everyMs) * everyMs,
  };
  clocks.set(everyMs, clock);
  return clock;
}

/** The current time, updated at the interval. For relative times and countdowns. */
export function useNow(everyMs: number = 1_000): number {
  const { subscribe, now } = clockOf(everyMs);
  return useSyncExternalStore(subscribe, now);
}

import { useSyncExternalStore } from 'react';

/** Now, renewed so often: for "3 min ago" and countdowns. */
export function useNow(everyMs: number = 1_000): number {
  return useSyncExternalStore(
    (listener) => {
      const timer = setInterval(listener, everyMs);
      return () => clearInterval(timer);
    },
    () => Math.floor(Date.now() / everyMs) * everyMs,
  );
}

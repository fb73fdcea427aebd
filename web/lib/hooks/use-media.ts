import { useMemo, useSyncExternalStore } from 'react';

/** Whether a media query matches. For decisions that CSS can't make. */
export function useMedia(query: string): boolean {
  const { subscribe, matches } = useMemo(() => {
    const media = window.matchMedia(query);
    return {
      subscribe: (listener: () => void): (() => void) => {
        media.addEventListener('change', listener);
        return () => media.removeEventListener('change', listener);
      },
      matches: (): boolean => media.matches,
    };
  }, [query]);
  return useSyncExternalStore(subscribe, matches);
}

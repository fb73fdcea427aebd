import { useMemo, useSyncExternalStore } from 'react';

/** Whether a media query fits, kept up to date: for what a style alone can't decide. */
export function useMedia(query: string): boolean {
  const { subscribe, fits } = useMemo(() => {
    const media = window.matchMedia(query);
    return {
      subscribe: (listener: () => void): (() => void) => {
        media.addEventListener('change', listener);
        return () => media.removeEventListener('change', listener);
      },
      fits: (): boolean => media.matches,
    };
  }, [query]);
  return useSyncExternalStore(subscribe, fits);
}

import { useCallback, useEffect, useState } from 'react';
import type { Welcome } from '#server/contract/session.ts';
import { api } from '../../lib/api/api.ts';

export type Fetched<T> = { data: T | undefined; error: unknown; retry: () => void };

/**
 * A minimal query hook, refetched when the name changes.
 * @param name null disables the query.
 */
export function useFetched<T>(name: string | null, read: (name: string) => Promise<T>): Fetched<T> {
  const [state, setState] = useState<Omit<Fetched<T>, 'retry'>>({ data: undefined, error: null });
  const load = useCallback((): (() => void) => {
    let isWanted = name !== null;
    const take = (next: typeof state): void => {
      if (isWanted) setState(next);
    };
    if (name !== null) {
      read(name).then(
        (data) => take({ data, error: null }),
        (error: unknown) => take({ data: undefined, error }),
      );
    }
    return () => {
      isWanted = false;
    };
  }, [name, read]);
  useEffect(load, [load]);
  return { ...state, retry: () => void load() };
}

/** Public information about this relay. */
export const useWelcome = (): Fetched<Welcome> => useFetched('/api/v1/welcome', readWelcome);
const readWelcome = (path: string): Promise<Welcome> => api<Welcome>('GET', path);

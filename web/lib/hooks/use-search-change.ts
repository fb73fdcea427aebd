import { useNavigate } from '@tanstack/react-router';
import { useCallback } from 'react';

/**
 * Returns a stable function that updates search parameters and keeps the scroll position. Undefined removes a
 * parameter.
 * @param replace whether to replace the history entry.
 */
export function useSearchChange({
  replace,
}: {
  replace: boolean;
}): (part: Readonly<Record<string, unknown>>) => void {
  const navigate = useNavigate();
  return useCallback(
    (part) => {
      // Each route validates its own parameters, so the router's type is not useful here.
      const changed = (before: object): object => ({ ...before, ...part });
      void navigate({ to: '.', search: changed as never, replace, resetScroll: false });
    },
    [navigate, replace],
  );
}

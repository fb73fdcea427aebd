import { useNavigate } from '@tanstack/react-router';
import { useCallback } from 'react';

/**
 * Changes a part of what the page's address says behind its question mark; undefined takes one away.
 * The page stays where it is scrolled to. The same function each time.
 * @param replace whether going back leads past it.
 */
export function useAddressChange({
  replace,
}: {
  replace: boolean;
}): (part: Readonly<Record<string, unknown>>) => void {
  const navigate = useNavigate();
  return useCallback(
    (part) => {
      // Each route reads its own part of any search, so the router's type of it says nothing here.
      const changed = (before: object): object => ({ ...before, ...part });
      void navigate({ to: '.', search: changed as never, replace, resetScroll: false });
    },
    [navigate, replace],
  );
}

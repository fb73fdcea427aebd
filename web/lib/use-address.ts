import { useNavigate, useSearch } from '@tanstack/react-router';
import { useCallback } from 'react';

/** What a page's address says behind its question mark, and how a part of it is changed. */
export type Address = {
  search: Record<string, unknown>;
  /** Undefined takes one away. The page stays where it is scrolled to. */
  change: (part: Readonly<Record<string, unknown>>) => void;
};

/** The address as the page's route has read it. `change` stays the same function. */
export function useAddress(): Address {
  const search: Record<string, unknown> = useSearch({ strict: false });
  const navigate = useNavigate();
  const change = useCallback(
    (part: Readonly<Record<string, unknown>>): void => {
      // Each route reads its own part of any search, so the router's type of it says nothing here.
      const changed = (before: object): object => ({ ...before, ...part });
      void navigate({ to: '.', search: changed as never, resetScroll: false });
    },
    [navigate],
  );
  return { search, change };
}

import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { meQuery } from '../api/session.ts';

/** Clears all cached data and opens the sign-in page. Idempotent. `next` is the page to return to. */
export function useLeave(): (next?: string) => Promise<void> {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return async (next) => {
    if (queries.getQueryData(meQuery.queryKey) === null) return;
    // Unmounts the layout, which closes the live feed.
    queries.setQueryData(meQuery.queryKey, null);
    queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== meQuery.queryKey[0] });
    queries.getMutationCache().clear();
    await navigate({ to: '/sign-in', search: next === undefined ? {} : { next } });
  };
}

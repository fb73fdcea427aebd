import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { meQuery } from './session.ts';

/**
 * What the page does when somebody is not signed in any more: nothing of their figures is left for
 * the next. `next` is where they come back to. Done twice, the second time does nothing.
 */
export function useLeave(): (next?: string) => Promise<void> {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return async (next) => {
    if (queries.getQueryData(meQuery.queryKey) === null) return;
    // The page draws nothing for nobody, and with it the live feed ends.
    queries.setQueryData(meQuery.queryKey, null);
    queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== meQuery.queryKey[0] });
    queries.getMutationCache().clear();
    await navigate({ to: '/sign-in', search: next === undefined ? {} : { next } });
  };
}

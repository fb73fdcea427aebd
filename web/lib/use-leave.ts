import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { feed } from './feed.ts';
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
    feed.close();
    // All at once, before the page learns of it: it would draw itself for nobody.
    queries.clear();
    queries.setQueryData(meQuery.queryKey, null);
    await navigate({ to: '/sign-in', search: next === undefined ? {} : { next } });
  };
}

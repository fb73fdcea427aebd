import { useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { feed } from './feed.ts';
import { meQuery } from './session.ts';

/** What the page does when somebody has signed out: nothing of their figures is left for the next. */
export function useLeave(): () => Promise<void> {
  const queries = useQueryClient();
  const navigate = useNavigate();
  return async () => {
    feed.close();
    queries.clear();
    queries.setQueryData(meQuery.queryKey, null);
    await navigate({ to: '/sign-in' });
  };
}

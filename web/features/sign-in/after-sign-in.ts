import { useNavigate } from '@tanstack/react-router';
import type { KeyRow } from '#server/contract/keys.ts';
import type { Me } from '#server/contract/session.ts';
import { api, type List } from '../../lib/api/api.ts';

/**
 * Navigates after signing in: to the requested page, else to the overview, or to First call if the account
 * has not sent a request yet.
 */
export function useAfterSignIn(): (me: Me, next?: string) => Promise<void> {
  const navigate = useNavigate();
  return async (me, next) => {
    // Modules of the signed-in pages are loaded on demand.
    const [{ queryClient }, { meQuery }] = await Promise.all([
      import('../../lib/api/query-client.ts'),
      import('../../lib/api/session.ts'),
    ]);
    // Drops all data of a previous session.
    queryClient.clear();
    queryClient.setQueryData(meQuery.queryKey, me);
    if (next !== undefined && next !== '/') return navigate({ href: next });
    await navigate({ to: (await hasCalled(me)) ? '/' : '/first-call' });
  };
}

/** Whether a key of the account was ever used. Defaults to true if that is unknown. */
async function hasCalled({ account, member }: Me): Promise<boolean> {
  if (member.role === 'auditor') return true;
  const keys = await api<List<KeyRow>>('GET', `/api/v1/keys?account=${account.id}`).catch(() => null);
  return (
    keys === null || keys.data.some((key) => key.last_used_at !== null || key.previous_last_used_at !== null)
  );
}

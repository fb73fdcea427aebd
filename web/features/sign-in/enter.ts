import { useNavigate } from '@tanstack/react-router';
import type { KeyRow } from '#server/contract/keys.ts';
import type { Me } from '#server/contract/session.ts';
import { api, type List } from '../../lib/api.ts';

/**
 * Takes somebody who has just signed in to where they wanted to go: without a wish to the overview, or to the
 * first call if there was none yet.
 */
export function useEnter(): (me: Me, next?: string) => Promise<void> {
  const navigate = useNavigate();
  return async (me, next) => {
    // What the pages inside are made of is fetched when somebody goes there.
    const [{ queryClient }, { meQuery }] = await Promise.all([
      import('../../lib/query-client.ts'),
      import('../../lib/session.ts'),
    ]);
    // Nothing of whoever was signed in before is left.
    queryClient.clear();
    queryClient.setQueryData(meQuery.queryKey, me);
    if (next !== undefined && next !== '/') return navigate({ href: next });
    await navigate({ to: (await hasCalled(me)) ? '/' : '/first-call' });
  };
}

/**
 * Whether a key of the account was ever used. Where that can't be told, the overview is no wrong place
 * either.
 */
async function hasCalled({ account, member }: Me): Promise<boolean> {
  if (member.role === 'auditor') return true;
  const keys = await api<List<KeyRow>>('GET', `/api/keys?account=${account.id}`).catch(() => null);
  return (
    keys === null || keys.data.some((key) => key.last_used_at !== null || key.previous_last_used_at !== null)
  );
}

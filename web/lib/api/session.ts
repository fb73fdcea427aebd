import { queryOptions } from '@tanstack/react-query';
import { createContext, use } from 'react';
import type { Me, Welcome } from '#server/contract/session.ts';
import { api, ApiError } from './api.ts';

/** Identifies what a member may see. */
export const rightsOf = ({ member, account }: Me): string => `${member.id} ${account.id} ${member.role}`;

/** The signed-in member, or null. */
export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: async ({ signal, client }): Promise<Me | null> => {
    try {
      const me = await api<Me>('GET', '/api/v1/me', undefined, signal);
      const before = client.getQueryData<Me | null>(['me']);
      // Drops cached data when the permissions changed.
      if (before && rightsOf(before) !== rightsOf(me))
        client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'me' });
      return me;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'unauthenticated') return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** Public information about this relay. */
export const welcomeQuery = queryOptions({
  queryKey: ['welcome'],
  queryFn: ({ signal }) => api<Welcome>('GET', '/api/v1/welcome', undefined, signal),
  staleTime: 60_000,
});

/** Provided by the layout, so that all pages use the same member. */
export const MeContext = createContext<Me | null>(null);

/** The signed-in member, on pages that require a session. */
export function useMe(): Me {
  const me = use(MeContext);
  if (me === null) throw new ApiError('Your session has ended.', { status: 401, code: 'unauthenticated' });
  return me;
}

/** Whether the member may change shared resources. */
export const useIsAdministrator = (): boolean => useMe().member.role === 'administrator';

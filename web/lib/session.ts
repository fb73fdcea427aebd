import { queryOptions } from '@tanstack/react-query';
import { createContext, use } from 'react';
import type { Me, Welcome } from '#server/contract/session.ts';
import { api, ApiError } from './api.ts';

/** What decides what somebody sees. */
export const rightsOf = ({ member, account }: Me): string => `${member.id} ${account.id} ${member.role}`;

/** Who is signed in; null: nobody. */
export const meQuery = queryOptions({
  queryKey: ['me'],
  queryFn: async ({ signal, client }): Promise<Me | null> => {
    try {
      const me = await api<Me>('GET', '/api/me', undefined, signal);
      const before = client.getQueryData<Me | null>(['me']);
      // Who may see something else is not shown what was seen before.
      if (before && rightsOf(before) !== rightsOf(me))
        client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'me' });
      return me;
    } catch (error) {
      if (error instanceof ApiError && error.code === 'not_signed_in') return null;
      throw error;
    }
  },
  staleTime: 60_000,
});

/** What anybody may know. */
export const welcomeQuery = queryOptions({
  queryKey: ['welcome'],
  queryFn: ({ signal }) => api<Welcome>('GET', '/api/welcome', undefined, signal),
  staleTime: 60_000,
});

/**
 * Given by what stands around all pages of somebody who is signed in, so that they all know of the same one.
 */
export const MeContext = createContext<Me | null>(null);

/** Who is signed in, on pages that nobody else gets to see. */
export function useMe(): Me {
  const me = use(MeContext);
  if (me === null)
    throw new ApiError('You are not signed in any more.', { status: 401, code: 'not_signed_in' });
  return me;
}

/** Whether whoever is signed in may change what belongs to everybody: auditors only look. */
export const useIsAdministrator = (): boolean => useMe().member.role === 'administrator';

import { queryOptions } from '@tanstack/react-query';
import type { AccountList, AccountRow } from '#server/contract/accounts.ts';
import { api, queryString } from '../../lib/api.ts';
import { accountsQuery } from '../../lib/names.ts';

/**
 * The newest accounts, as many as a list holds; with a text those that have it in their name. Whatever renews
 * the names renews these, too.
 */
export const accountListQuery = (search: string) =>
  queryOptions({
    queryKey: [...accountsQuery.queryKey, 'list', search],
    queryFn: ({ signal }) =>
      api<AccountList>('GET', `/api/accounts${queryString({ search })}`, undefined, signal),
    staleTime: 30_000,
  });

/** One account; also one that the list leaves out. */
export const accountQuery = (id: string) =>
  queryOptions({
    queryKey: [...accountsQuery.queryKey, 'one', id],
    queryFn: ({ signal }) =>
      api<AccountRow>('GET', `/api/accounts/${encodeURIComponent(id)}`, undefined, signal),
    staleTime: 30_000,
  });

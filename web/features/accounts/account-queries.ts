import { queryOptions } from '@tanstack/react-query';
import type { AccountList, AccountRow, TopUpList } from '#server/contract/accounts.ts';
import type { CorrectionList } from '#server/contract/requests.ts';
import { api, queryString } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';

/**
 * The newest accounts up to the list's bound, optionally filtered by name. Shares the key prefix of the name
 * queries, so that invalidating those refetches this as well.
 */
export const accountListQuery = (search: string) =>
  queryOptions({
    queryKey: [...accountsQuery.queryKey, 'list', search],
    queryFn: ({ signal }) =>
      api<AccountList>('GET', `/api/v1/accounts${queryString({ search })}`, undefined, signal),
    staleTime: 30_000,
  });

/** One account, including one beyond the list's bound. */
export const accountQuery = (id: string) =>
  queryOptions({
    queryKey: [...accountsQuery.queryKey, 'one', id],
    queryFn: ({ signal }) =>
      api<AccountRow>('GET', `/api/v1/accounts/${encodeURIComponent(id)}`, undefined, signal),
    staleTime: 30_000,
  });

/** The newest corrections of an account's requests. For administrators and auditors only. */
export const correctionsQuery = (id: string) =>
  queryOptions({
    queryKey: ['corrections', id],
    queryFn: ({ signal }) =>
      api<CorrectionList>('GET', `/api/v1/accounts/${encodeURIComponent(id)}/corrections`, undefined, signal),
    staleTime: 30_000,
  });

/** The newest top-ups of an account. For administrators and auditors only. */
export const topUpsQuery = (id: string) =>
  queryOptions({
    queryKey: ['top-ups', id],
    queryFn: ({ signal }) =>
      api<TopUpList>('GET', `/api/v1/accounts/${encodeURIComponent(id)}/top-ups`, undefined, signal),
    staleTime: 30_000,
  });

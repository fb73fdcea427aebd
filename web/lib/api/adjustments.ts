import { queryOptions } from '@tanstack/react-query';
import type { AdjustmentList } from '#server/contract/accounts.ts';
import { api } from './api.ts';

export const adjustmentsKey = (account: string) => ['adjustments', account] as const;

/** The newest adjustments of an account's usage. For administrators and auditors only. */
export const adjustmentsQuery = (account: string) =>
  queryOptions({
    queryKey: adjustmentsKey(account),
    queryFn: ({ signal }) =>
      api<AdjustmentList>(
        'GET',
        `/api/v1/accounts/${encodeURIComponent(account)}/adjustments`,
        undefined,
        signal,
      ),
    staleTime: 30_000,
  });

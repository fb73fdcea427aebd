import { queryOptions } from '@tanstack/react-query';
import type { Status } from '#server/contract/status.ts';
import { api } from '../../lib/api.ts';

const REFRESH_MS = 5_000;

/**
 * The state of the machine, which is in no log: it is asked for anew while somebody looks, the only
 * one of the page's figures that are.
 */
export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: ({ signal }) => api<Status>('GET', '/api/status', undefined, signal),
  refetchInterval: REFRESH_MS,
  staleTime: REFRESH_MS,
});

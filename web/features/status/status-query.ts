import { queryOptions } from '@tanstack/react-query';
import type { Status } from '#server/contract/status.ts';
import { api } from '../../lib/api.ts';

const REFRESH_MS = 5_000;

/** The system status. Polled, because it is not in the event log. */
export const statusQuery = queryOptions({
  queryKey: ['status'],
  queryFn: ({ signal }) => api<Status>('GET', '/api/status', undefined, signal),
  refetchInterval: REFRESH_MS,
  staleTime: REFRESH_MS,
});

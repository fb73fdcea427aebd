import { queryOptions } from '@tanstack/react-query';
import type { ManagementKeyList } from '#server/contract/keys.ts';
import { api } from '../../lib/api/api.ts';

/** The visible management keys, newest first. */
export const managementKeysQuery = queryOptions({
  queryKey: ['management-keys'],
  queryFn: ({ signal }) => api<ManagementKeyList>('GET', '/api/v1/management-keys', undefined, signal),
  staleTime: 30_000,
});

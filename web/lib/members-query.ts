import { queryOptions } from '@tanstack/react-query';
import type { MemberRow } from '#server/contract/members.ts';
import { api, type LongList } from './api.ts';

/** The visible members. Email addresses depend on the role. */
export const membersQuery = queryOptions({
  queryKey: ['members'],
  queryFn: ({ signal }) => api<LongList<MemberRow>>('GET', '/api/members', undefined, signal),
  staleTime: 30_000,
});

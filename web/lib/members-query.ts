import { queryOptions } from '@tanstack/react-query';
import type { MemberRow } from '#server/contract/members.ts';
import { api, type LongList } from './api.ts';

/** Who signs in: those that whoever asks may see, by address where that may be seen. */
export const membersQuery = queryOptions({
  queryKey: ['members'],
  queryFn: ({ signal }) => api<LongList<MemberRow>>('GET', '/api/members', undefined, signal),
  staleTime: 30_000,
});

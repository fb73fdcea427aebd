import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { MemberRow } from '#server/dashboard/contract-accounts.ts';
import type { EventPage } from '#server/dashboard/contract-service.ts';
import { api, type List, queryString } from '../../lib/api.ts';
import type { EventSearch } from '../../lib/event-search.ts';

const PAGE_EVENTS = 50;

/** The log, newest first, page by page. */
export const eventsQuery = (search: EventSearch) =>
  infiniteQueryOptions({
    queryKey: ['events', search],
    queryFn: ({ pageParam, signal }) => api<EventPage>('GET', `/api/events${queryString({ ...search, limit: PAGE_EVENTS, cursor: pageParam })}`, undefined, signal),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    // Nothing that is there ever changes; what is new is counted, and shown when somebody wants it.
    staleTime: Infinity,
    gcTime: 0,
  });

/** Who signs in, to tell of them by address where that may be seen. */
export const membersQuery = queryOptions({
  queryKey: ['members'],
  queryFn: async ({ signal }) => (await api<List<MemberRow>>('GET', '/api/members', undefined, signal)).data,
  staleTime: 60_000,
});

import { infiniteQueryOptions } from '@tanstack/react-query';
import type { EventPage } from '#server/contract/events.ts';
import { api, queryString } from '../../lib/api.ts';
import type { EventSearch } from '../../lib/event-search.ts';

const PAGE_EVENTS = 50;

/** The log, newest first, page by page. */
export const eventsQuery = (search: EventSearch) =>
  infiniteQueryOptions({
    queryKey: ['events', search],
    queryFn: ({ pageParam, signal }) =>
      api<EventPage>(
        'GET',
        `/api/events${queryString({ ...search, limit: PAGE_EVENTS, cursor: pageParam })}`,
        undefined,
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    // Nothing that is there ever changes; what is new is counted, and shown when somebody wants it.
    staleTime: Infinity,
    gcTime: 0,
  });

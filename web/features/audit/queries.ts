import { infiniteQueryOptions } from '@tanstack/react-query';
import type { EventPage } from '#server/contract/events.ts';
import { api, queryString } from '../../lib/api/api.ts';
import type { EventSearch } from '../../lib/search/events.ts';

const PAGE_EVENTS = 50;

/** Events, newest first, page by page. */
export const eventsQuery = (search: EventSearch) =>
  infiniteQueryOptions({
    queryKey: ['events', search],
    queryFn: ({ pageParam, signal }) =>
      api<EventPage>(
        'GET',
        `/api/v1/events${queryString({ ...search, limit: PAGE_EVENTS, cursor: pageParam })}`,
        undefined,
        signal,
      ),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    // Events never change. New ones are counted and loaded on request.
    staleTime: Infinity,
    gcTime: 0,
  });

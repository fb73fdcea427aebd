import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { RequestPage, RequestDetail } from '#server/contract/requests.ts';
import { api, ApiError, queryString } from '../../lib/api.ts';
import { type FilterSearch, requestFilterOf, timeOf } from '../../lib/filter-search.ts';

export const FALLBACK_RANGE = '24h';
const PAGE_ROWS = 100;
/** Whoever wants older ones narrows the time. */
const PAGES_MAX = 20;

/** The query that list and CSV have in common: what is in the address, with its time from now. */
export function listQuery(search: FilterSearch, nowMs: number): Record<string, string | number | undefined> {
  const { fromMs, toMs } = timeOf(search, FALLBACK_RANGE, nowMs);
  return {
    ...requestFilterOf(search),
    from: new Date(fromMs).toISOString(),
    to: toMs === null ? undefined : new Date(toMs).toISOString(),
  };
}

/**
 * Requests, newest first, page by page.
 * @param before in place of the address's own end: a list that the feed has outgrown goes on from there.
 */
export const requestsQuery = ({ range, from, to, ...filter }: FilterSearch, before: string | null) =>
  infiniteQueryOptions({
    queryKey: ['requests', requestFilterOf(filter), range, from, to, before],
    queryFn: ({ pageParam, signal }) => {
      const query = listQuery({ ...filter, range, from, to } as FilterSearch, Date.now());
      return api<RequestPage>(
        'GET',
        `/api/requests${queryString({ ...query, to: before ?? query['to'], limit: PAGE_ROWS, cursor: pageParam })}`,
        undefined,
        signal,
      );
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }, pages) => (pages.length < PAGES_MAX ? next : null),
    // The feed carries it on. What lies about from an earlier visit would have a hole.
    staleTime: Infinity,
    gcTime: 0,
  });

const LAG_TRIES_MAX = 6;
const LAG_PAUSE_MS = 500;

/** All that is known of one request. One that has just been made is asked for again for three seconds. */
export const storyQuery = (request: string) =>
  queryOptions({
    queryKey: ['request', request],
    queryFn: ({ signal }) =>
      api<RequestDetail>('GET', `/api/requests/${encodeURIComponent(request)}`, undefined, signal),
    staleTime: 2_000,
    retry: (count, error) =>
      count < LAG_TRIES_MAX &&
      error instanceof ApiError &&
      (error.status === 404 || error.status === 0 || error.status >= 500),
    retryDelay: LAG_PAUSE_MS,
  });

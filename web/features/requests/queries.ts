import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { RequestPage, RequestDetail } from '#server/contract/requests.ts';
import { api, ApiError, queryString } from '../../lib/api/api.ts';
import { type FilterSearch, requestFilterOf, timeOf } from '../../lib/search/filter.ts';

export const FALLBACK_RANGE = '24h';
const PAGE_ROWS = 100;
/** Older requests are found by a custom time range. */
const PAGES_MAX = 20;

/** The query shared by list and CSV, with relative ranges resolved. */
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
 * @param before overrides the end of the range, to continue a list whose older live rows were dropped.
 */
export const requestsQuery = ({ range, from, to, ...filter }: FilterSearch, before: string | null) =>
  infiniteQueryOptions({
    queryKey: ['requests', requestFilterOf(filter), range, from, to, before],
    queryFn: ({ pageParam, signal }) => {
      const query = listQuery({ ...filter, range, from, to } as FilterSearch, Date.now());
      const page = { to: before ?? query['to'], limit: PAGE_ROWS, cursor: pageParam };
      return api<RequestPage>(
        'GET',
        `/api/v1/requests${queryString({ ...query, ...page })}`,
        undefined,
        signal,
      );
    },
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }, pages) => (pages.length < PAGES_MAX ? next : null),
    // The live feed continues this result. A cached one would have a gap.
    staleTime: Infinity,
    gcTime: 0,
  });

const LAG_RETRIES_MAX = 6;
const LAG_PAUSE_MS = 500;

/** Details of one request. Retried for three seconds, because the projections lag behind a new request. */
export const requestQuery = (request: string) =>
  queryOptions({
    queryKey: ['request', request],
    queryFn: ({ signal }) =>
      api<RequestDetail>('GET', `/api/v1/requests/${encodeURIComponent(request)}`, undefined, signal),
    staleTime: 2_000,
    retry: (count, error) =>
      count < LAG_RETRIES_MAX &&
      error instanceof ApiError &&
      (error.status === 404 || error.status === 0 || error.status >= 500),
    retryDelay: LAG_PAUSE_MS,
  });

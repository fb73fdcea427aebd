import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import type { CheckpointPage, Checks, Proof, PastState } from '#server/contract/audit.ts';
import { api, queryString } from '../../lib/api/api.ts';
import type { StateSearch } from '../../lib/search/state.ts';

/** Checkpoints are at least ten seconds apart. */
const REFRESH_MS = 5_000;
const PAGE_CHECKPOINTS = 20;

/** Checkpoint coverage. Polled, because checkpoints are not events and don't appear in the live feed. */
export const proofQuery = queryOptions({
  queryKey: ['audit', 'proof'],
  queryFn: ({ signal }) => api<Proof>('GET', '/api/v1/audit/proof', undefined, signal),
  refetchInterval: REFRESH_MS,
  staleTime: REFRESH_MS,
});

/** Checkpoints, newest first, page by page. */
export const checkpointsQuery = infiniteQueryOptions({
  queryKey: ['audit', 'checkpoints'],
  queryFn: ({ pageParam, signal }) =>
    api<CheckpointPage>(
      'GET',
      `/api/v1/audit/checkpoints${queryString({ limit: PAGE_CHECKPOINTS, cursor: pageParam })}`,
      undefined,
      signal,
    ),
  initialPageParam: null as string | null,
  getNextPageParam: ({ next }) => next,
  staleTime: Infinity,
  gcTime: 0,
});

export const checksQuery = queryOptions({
  queryKey: ['audit', 'checks'],
  queryFn: ({ signal }) => api<Checks>('GET', '/api/v1/audit/checks', undefined, signal),
  staleTime: REFRESH_MS,
});

/** A past state never changes, and every view is recorded in the audit log. */
export const stateQuery = (search: StateSearch) =>
  queryOptions({
    queryKey: ['audit', 'state', search],
    queryFn: ({ signal }) =>
      api<PastState>('GET', `/api/v1/audit/state${queryString(search)}`, undefined, signal),
    staleTime: Infinity,
    retry: false,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });

import { queryOptions } from '@tanstack/react-query';
import type { ModelRoute } from '#server/contract/models.ts';
import type { UpstreamList, UpstreamModels } from '#server/contract/upstreams.ts';
import { api, type List } from '../../lib/api/api.ts';

const REFRESH_MS = 5_000;

/** The upstreams. Polled, because health is not in the event log. */
export const upstreamsQuery = queryOptions({
  queryKey: ['upstreams'],
  queryFn: ({ signal }) => api<UpstreamList>('GET', '/api/v1/upstreams', undefined, signal),
  refetchInterval: REFRESH_MS,
  staleTime: REFRESH_MS,
});

/** The custom models. */
export const dispatchQuery = queryOptions({
  queryKey: ['dispatch'],
  queryFn: async ({ signal }) =>
    (await api<List<ModelRoute>>('GET', '/api/v1/dispatch', undefined, signal)).data,
});

/** An upstream's own model list, for suggestions. Empty if it is unavailable. */
export const ownModelsQuery = (upstream: string) =>
  queryOptions({
    queryKey: ['upstream-models', upstream],
    queryFn: async ({ signal }) =>
      (
        await api<UpstreamModels>(
          'GET',
          `/api/v1/upstreams/${encodeURIComponent(upstream)}/models`,
          undefined,
          signal,
        )
      ).data,
    staleTime: 60_000,
    retry: false,
  });

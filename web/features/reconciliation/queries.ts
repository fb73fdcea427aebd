import { queryOptions } from '@tanstack/react-query';
import type { ReconciliationList, ReconciliationReport } from '#server/contract/reconciliations.ts';
import type { UpstreamList } from '#server/contract/upstreams.ts';
import { api } from '../../lib/api/api.ts';

const RUNNING_REFRESH_MS = 2_000;

/** The newest recorded comparisons; polled while a task runs, since its progress is not in the event log. */
export const reconciliationsQuery = queryOptions({
  queryKey: ['reconciliations'],
  queryFn: ({ signal }) => api<ReconciliationList>('GET', '/api/v1/reconciliations', undefined, signal),
  refetchInterval: ({ state }) => (state.data?.running ? RUNNING_REFRESH_MS : false),
});

/** One comparison; without an id the newest, or null. */
export const reportQuery = (id: string | undefined) =>
  queryOptions({
    queryKey: ['reconciliations', id ?? 'newest'],
    queryFn: async ({ client, signal }) => {
      const wanted = id ?? (await client.ensureQueryData(reconciliationsQuery)).data[0]?.id;
      if (wanted === undefined) return null;
      const path = `/api/v1/reconciliations/${encodeURIComponent(wanted)}`;
      return api<ReconciliationReport>('GET', path, undefined, signal);
    },
  });

/** The names of the upstreams. */
export const upstreamNamesQuery = queryOptions({
  queryKey: ['upstreams', 'names'],
  queryFn: async ({ signal }) =>
    (await api<UpstreamList>('GET', '/api/v1/upstreams', undefined, signal)).data.map(({ name }) => name),
});

import { queryOptions } from '@tanstack/react-query';
import type { SinkRow } from '#server/contract/sinks.ts';
import { api, type List } from '../../lib/api/api.ts';

const REFRESH_MS = 5_000;
/** While a test event is on its way. */
const TEST_REFRESH_MS = 1_000;

/** The sinks. Polled, because deliveries are not in the event log. */
export const sinksQuery = queryOptions({
  queryKey: ['sinks'],
  queryFn: async ({ signal }) => (await api<List<SinkRow>>('GET', '/api/v1/sinks', undefined, signal)).data,
  refetchInterval: ({ state: { data } }) =>
    data?.some(({ test }) => test?.state === 'pending') === true ? TEST_REFRESH_MS : REFRESH_MS,
  staleTime: REFRESH_MS,
});

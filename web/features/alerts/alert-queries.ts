import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { AlertFilter } from '#db/alerts/alerts.ts';
import type { AlertRow, DeliveryRow, DestinationRow } from '#server/contract/alerts.ts';
import { api, type List, queryString } from '../../lib/api/api.ts';

/** The newest alerts. */
export const alertsQuery = (filter: AlertFilter) =>
  queryOptions({
    queryKey: [...ALERTS_KEY, filter],
    queryFn: async ({ signal }) =>
      (await api<List<AlertRow>>('GET', `/api/v1/alerts${queryString(filter)}`, undefined, signal)).data,
    placeholderData: keepPreviousData,
  });
/** Of the alerts by any filter. */
export const ALERTS_KEY = ['alerts'];

export const destinationsQuery = queryOptions({
  queryKey: ['destinations'],
  queryFn: async ({ signal }) =>
    (await api<List<DestinationRow>>('GET', '/api/v1/destinations', undefined, signal)).data,
});

/** An endpoint has ten seconds to respond, so this covers the first attempt. */
const FOLLOW_MS = 20_000;

/**
 * The newest deliveries of a destination. A pending first attempt is polled, because deliveries are not
 * events and don't appear in the live feed.
 */
export const deliveriesQuery = (destination: string) =>
  queryOptions({
    queryKey: ['deliveries', destination],
    queryFn: async ({ signal }) =>
      (
        await api<List<DeliveryRow>>(
          'GET',
          `/api/v1/deliveries${queryString({ destination })}`,
          undefined,
          signal,
        )
      ).data,
    staleTime: 0,
    refetchInterval: ({ state: { data } }) =>
      data?.some(
        ({ state, created_at: at, attempts }) =>
          state === 'pending' && attempts.length === 0 && Date.now() - Date.parse(at) < FOLLOW_MS,
      ) === true
        ? 1_000
        : false,
  });

import { queryOptions } from '@tanstack/react-query';
import type { PriceRow } from '#server/contract/models.ts';
import { api, type List } from '../../lib/api.ts';

/** All configured prices. */
export const pricesQuery = queryOptions({
  queryKey: ['prices'],
  queryFn: async ({ signal }) => (await api<List<PriceRow>>('GET', '/api/prices', undefined, signal)).data,
});

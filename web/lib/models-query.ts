import { queryOptions } from '@tanstack/react-query';
import type { ModelRow } from '#server/contract/models.ts';
import { api, type List } from './api.ts';

/** The models available to the account, with prices. */
export const modelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: async ({ signal }) => (await api<List<ModelRow>>('GET', '/api/models', undefined, signal)).data,
  staleTime: 60_000,
});

import { queryOptions } from '@tanstack/react-query';
import type { PlanRow } from '#server/contract/accounts.ts';
import { api, type List } from './api.ts';

/** All plans, retired ones too; for administrators and auditors. */
export const plansQuery = queryOptions({
  queryKey: ['plans'],
  queryFn: async ({ signal }) => (await api<List<PlanRow>>('GET', '/api/plans', undefined, signal)).data,
});

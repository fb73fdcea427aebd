import { queryOptions } from '@tanstack/react-query';
import type { PlanRow } from '#server/contract/accounts.ts';
import { api, type List, type LongList } from './api.ts';
import type { MemberRow } from '#server/contract/members.ts';
import type { ModelRow, PriceRow } from '#server/contract/models.ts';

/** All plans, retired ones too; for administrators and auditors. */
export const plansQuery = queryOptions({
  queryKey: ['plans'],
  queryFn: async ({ signal }) => (await api<List<PlanRow>>('GET', '/api/v1/plans', undefined, signal)).data,
});

/** The visible members. Email addresses depend on the role. */
export const membersQuery = queryOptions({
  queryKey: ['members'],
  queryFn: ({ signal }) => api<LongList<MemberRow>>('GET', '/api/v1/members', undefined, signal),
  staleTime: 30_000,
});

/** The models available to the account, with prices. */
export const modelsQuery = queryOptions({
  queryKey: ['models'],
  queryFn: async ({ signal }) => (await api<List<ModelRow>>('GET', '/api/v1/models', undefined, signal)).data,
  staleTime: 60_000,
});

/** A lag of fewer events is caught up within moments and not shown. */
export const BEHIND_SHOWN_MIN = 1_000;

/** All configured prices. */
export const pricesQuery = queryOptions({
  queryKey: ['prices'],
  queryFn: async ({ signal }) => (await api<List<PriceRow>>('GET', '/api/v1/prices', undefined, signal)).data,
});

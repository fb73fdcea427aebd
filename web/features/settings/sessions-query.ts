import { queryOptions } from '@tanstack/react-query';
import type { SessionRow } from '#server/contract/session.ts';
import { api, type List } from '../../lib/api.ts';

/** The member's sessions. */
export const sessionsQuery = queryOptions({
  queryKey: ['sessions'],
  queryFn: async ({ signal }) =>
    (await api<List<SessionRow>>('GET', '/api/sessions', undefined, signal)).data,
});

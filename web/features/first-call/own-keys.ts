import { queryOptions } from '@tanstack/react-query';
import type { KeyRow } from '#server/contract/keys.ts';
import { api, type List } from '../../lib/api/api.ts';
import { keysQuery } from '../../lib/api/names.ts';

/** Keys of the member's own account, even for roles that see all accounts. */
export const ownKeysQuery = (account: string) =>
  queryOptions({
    queryKey: [...keysQuery.queryKey, { account }],
    queryFn: async ({ signal }) =>
      (await api<List<KeyRow>>('GET', `/api/v1/keys?account=${account}`, undefined, signal)).data,
  });

import { queryOptions } from '@tanstack/react-query';
import type { KeyRow } from '#server/contract/keys.ts';
import { api, type List } from '../../lib/api.ts';
import { keysQuery } from '../../lib/names.ts';

/** The account's own keys, whoever else's somebody may see as well. */
export const ownKeysQuery = (account: string) =>
  queryOptions({
    queryKey: [...keysQuery.queryKey, { account }],
    queryFn: async ({ signal }) =>
      (await api<List<KeyRow>>('GET', `/api/keys?account=${account}`, undefined, signal)).data,
  });

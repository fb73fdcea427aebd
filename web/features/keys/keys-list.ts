import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query';
import type { KeyList } from '#server/contract/keys.ts';
import { api, queryString } from '../../lib/api/api.ts';
import type { KeySearch } from '../../lib/search/keys.ts';
import { keysQuery } from '../../lib/api/names.ts';

/** Polled while a key rotates: the last use of its old secret is not in the live feed. */
const ROTATING_REFETCH_MS = 30_000;

/** Shares the key prefix of the name query, so that a change invalidates both. */
const keyListQuery = (narrowed: { account?: string | undefined; search?: string | undefined }) =>
  queryOptions({
    queryKey: [...keysQuery.queryKey, 'list', narrowed],
    queryFn: ({ signal }) => api<KeyList>('GET', `/api/v1/keys${queryString(narrowed)}`, undefined, signal),
    refetchInterval: ({ state }) =>
      state.data?.data.some((key) => key.state === 'rotating') === true ? ROTATING_REFETCH_MS : false,
  });

/** All keys, or a server-side search if there are too many for one list. */
export function useKeyList({ account, name: search = '' }: KeySearch) {
  const all = useQuery(keyListQuery({}));
  const isPartial = (all.data?.rows_omitted ?? 0) > 0 && (account !== undefined || search !== '');
  const found = useQuery({
    ...keyListQuery({ account, search }),
    enabled: isPartial,
    placeholderData: keepPreviousData,
  });
  return isPartial && found.data ? found : all;
}

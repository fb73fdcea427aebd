import { keepPreviousData, queryOptions, useQuery } from '@tanstack/react-query';
import type { KeyList } from '#server/contract/keys.ts';
import { api, queryString } from '../../lib/api.ts';
import type { KeySearch } from '../../lib/key-search.ts';
import { keysQuery } from '../../lib/names.ts';

/**
 * While a key rotates, people wait for its old secret to fall silent, and use brings no notice of the feed.
 */
const ROTATING_REFETCH_MS = 30_000;

/** Begins as the list of names does, so that a change of keys has both fetched anew. */
const keyListQuery = (narrowed: { account?: string | undefined; search?: string | undefined }) =>
  queryOptions({
    queryKey: [...keysQuery.queryKey, 'list', narrowed],
    queryFn: ({ signal }) => api<KeyList>('GET', `/api/keys${queryString(narrowed)}`, undefined, signal),
    refetchInterval: ({ state }) =>
      state.data?.data.some((key) => key.state === 'rotating') === true ? ROTATING_REFETCH_MS : false,
  });

/**
 * The keys that there are; where those are too many for one list, the server looks for those that are meant.
 */
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

import { queryOptions, useQuery } from '@tanstack/react-query';
import type { AccountRow } from '#server/contract/accounts.ts';
import type { KeyRow } from '#server/contract/keys.ts';
import { api, type List } from './api.ts';
import { useMe } from './session.ts';

/** What keys and accounts are called. Their ids stand in figures and events; people know them by name. */

/** Every key that whoever is signed in may see. */
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: async ({ signal }) => (await api<List<KeyRow>>('GET', '/api/keys', undefined, signal)).data,
  staleTime: 30_000,
});

/** Every account; for administrators and auditors alone. */
export const accountsQuery = queryOptions({
  queryKey: ['accounts'],
  queryFn: async ({ signal }) =>
    (await api<List<AccountRow>>('GET', '/api/accounts', undefined, signal)).data,
  staleTime: 30_000,
});

/** Whether somebody sees every account, not only the own. */
export const useIsOverseer = (): boolean => useMe().member.role !== 'member';

/** What a thing is called; its id where the name is not known (yet). */
export type NameOf = (id: string) => string;

const namesOf = (rows: readonly { id: string; name: string }[]): NameOf => {
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) ?? id;
};
const justId: NameOf = (id) => id;

export const useKeyNames = (): NameOf => useQuery({ ...keysQuery, select: namesOf }).data ?? justId;

/** Members know their own account's name alone, and see no other. */
export function useAccountNames(): NameOf {
  const { account } = useMe();
  const { data } = useQuery({ ...accountsQuery, enabled: useIsOverseer(), select: namesOf });
  return data ?? ((id) => (id === account.id ? account.name : id));
}

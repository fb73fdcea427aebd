import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { AccountRow } from '#server/contract/accounts.ts';
import type { KeyRow } from '#server/contract/keys.ts';
import { useFrames } from '../feed/use-feed.ts';
import { mayHaveChanged } from '../feed/use-notices.ts';
import { api, type List } from './api.ts';
import { membersQuery } from './queries.ts';
import { useMe } from './session.ts';

/** Display names of keys and accounts. Figures and events contain only ids. */

/** The visible keys. */
export const keysQuery = queryOptions({
  queryKey: ['keys'],
  queryFn: async ({ signal }) => (await api<List<KeyRow>>('GET', '/api/v1/keys', undefined, signal)).data,
  staleTime: 30_000,
});

/** All accounts. For administrators and auditors only. */
export const accountsQuery = queryOptions({
  queryKey: ['accounts'],
  queryFn: async ({ signal }) =>
    (await api<List<AccountRow>>('GET', '/api/v1/accounts', undefined, signal)).data,
  staleTime: 30_000,
});

/** Whether the member sees all accounts. */
export const useIsOverseer = (): boolean => useMe().member.role !== 'member';

/** Returns a display name, or the id if the name is unknown. */
export type NameOf = (id: string) => string;

const namesOf = (rows: readonly { id: string; name: string }[]): NameOf => {
  const names = new Map(rows.map(({ id, name }) => [id, name]));
  return (id) => names.get(id) ?? id;
};
const justId: NameOf = (id) => id;

export const useKeyNames = (): NameOf => useQuery({ ...keysQuery, select: namesOf }).data ?? justId;

/** Members only know their own account's name. */
export function useAccountNames(): NameOf {
  const { account } = useMe();
  const { data } = useQuery({ ...accountsQuery, enabled: useIsOverseer(), select: namesOf });
  return data ?? ((id) => (id === account.id ? account.name : id));
}

/** Returns the email address of a member, as far as the role may see it. */
export function useMemberNames(): NameOf {
  const { data } = useQuery(membersQuery);
  const addresses = useMemo(() => new Map(data?.data.map(({ id, email }) => [id, email])), [data]);
  return (id) => addresses.get(id) ?? `Member ${id}`;
}

const NAMED = [
  { kinds: ['account.registered'], queryKey: accountsQuery.queryKey },
  { kinds: ['key.created', 'key.renamed'], queryKey: keysQuery.queryKey },
  { kinds: ['member.added'], queryKey: membersQuery.queryKey },
];

/** Refetches names when the live feed reports new ones: a page may show an id that it didn't know before. */
export function useNewNames(): void {
  const queries = useQueryClient();
  useFrames((frames) => {
    for (const { kinds, queryKey } of NAMED)
      if (mayHaveChanged(frames, (kind) => kinds.includes(kind)))
        void queries.invalidateQueries({ queryKey });
  });
}

/** The member or process that caused an event. */
export function describeActor(actor: string | null, member: NameOf): string {
  if (actor === null) return '';
  if (actor.startsWith('member/')) return member(actor.slice('member/'.length));
  const [, managementKey] = actor.split('management_key/');
  return managementKey === undefined ? actor.replaceAll('-', ' ') : `management key ${managementKey}`;
}

/** Whether a key can still be used and changed. */
export const isActive = ({ state }: Pick<KeyRow, 'state'>): boolean =>
  state === 'active' || state === 'rotating';

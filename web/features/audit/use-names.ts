import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { membersQuery } from '../../lib/api/queries.ts';
import { useAccountNames, useKeyNames } from '../../lib/api/names.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import type { Names } from './event-words.ts';

/** Display names for the ids in events. */
export function useNames(): Names {
  const key = useKeyNames();
  const account = useAccountNames();
  const zone = useZone();
  const { data } = useQuery(membersQuery);
  const addresses = useMemo(() => new Map(data?.data.map(({ id, email }) => [id, email])), [data]);
  return { key, account, zone, member: (id) => addresses.get(id) ?? `Member ${id}` };
}

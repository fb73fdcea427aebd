import { useAccountNames, useKeyNames, useMemberNames } from '../../lib/api/names.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import type { Names } from './event-words.ts';

/** Display names for the ids in events. */
export function useNames(): Names {
  const key = useKeyNames();
  const account = useAccountNames();
  const member = useMemberNames();
  const zone = useZone();
  return { key, account, zone, member };
}

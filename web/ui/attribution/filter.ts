import type { AttributionKind } from '#server/contract/attribution.ts';
import { ApiError } from '../../lib/api/api.ts';
import {
  findPseudonym,
  isPseudonym,
  shortenPseudonym,
  useAttributedNames,
  useMayReadAttribution,
} from '../../lib/api/attribution.ts';
import { useMe } from '../../lib/api/session.ts';
import type { FilterSearch } from '../../lib/search/filter.ts';

/** Filters by end user, session and tag: typed and shown as readable values, sent as pseudonyms. */

type Typed = Partial<Record<AttributionKind, string>>;
type Found = { pseudonyms: Typed } | { problem: string };
const KINDS = ['end_user', 'session', 'tag'] as const;

/** The account whose pseudonyms a filter has; null: one of several. */
function useAccountOf(): (search: FilterSearch) => string | null {
  const { member, account } = useMe();
  return (search) => (member.role === 'member' ? account.id : (search.account ?? null));
}

/** Returns the pseudonyms of typed values, or the first problem. */
export function usePseudonyms(): (search: FilterSearch, typed: Typed) => Promise<Found> {
  const accountOf = useAccountOf();
  const mayRead = useMayReadAttribution();
  return async (search, typed) => {
    const pseudonyms: Typed = {};
    try {
      for (const kind of KINDS) {
        const text = typed[kind]?.trim() ?? '';
        if (text === '') continue;
        if (!mayRead && !isPseudonym(text)) return { problem: 'Auditors filter by the pseudonym.' };
        const found = await findPseudonym(mayRead ? accountOf(search) : null, kind, text);
        if ('problem' in found) return found;
        pseudonyms[kind] = found.pseudonym;
      }
    } catch (error) {
      return { problem: error instanceof ApiError ? error.message : 'An unexpected error occurred.' };
    }
    return { pseudonyms };
  };
}

/** The texts of a filter's end user, session and tag: the value, or the shortened pseudonym. */
export function useFilterNames(search: FilterSearch): (kind: AttributionKind) => string {
  const account = useAccountOf()(search);
  const wanted = KINDS.flatMap((kind) => {
    const pseudonym = search[kind];
    return account === null || pseudonym === undefined ? [] : [{ account, kind, pseudonym }];
  });
  const names = useAttributedNames(wanted);
  return (kind) => {
    const pseudonym = search[kind] ?? '';
    return names.get(pseudonym)?.value ?? shortenPseudonym(pseudonym);
  };
}

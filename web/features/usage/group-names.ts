import type { AttributionKind, AttributionName } from '#server/contract/attribution.ts';
import type { UsageGroup, UsageRow } from '#server/contract/usage.ts';
import { useAttributedNames } from '../../lib/api/attribution.ts';
import { useMe } from '../../lib/api/session.ts';

/** Whether the groups are pseudonyms. */
export const isAttributed = (group: UsageGroup): group is AttributionKind =>
  group === 'end_user' || group === 'session' || group === 'tag';

/** The readable values of the groups of a report that are shown. */
export function useGroupNames(
  group: UsageGroup,
  account: string | undefined,
  rows: readonly UsageRow[],
): ReadonlyMap<string, AttributionName> {
  const own = useMe().account.id;
  return useAttributedNames(
    isAttributed(group)
      ? rows.flatMap((row) => {
          const pseudonym = row[group] ?? '';
          return pseudonym === '' ? [] : [{ account: row.account ?? account ?? own, kind: group, pseudonym }];
        })
      : [],
  );
}

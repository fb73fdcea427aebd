import { FILTER_FIELDS } from '#db/fold/call-filter.ts';
import type { UsageGroup } from '#server/contract/usage.ts';
import { type FilterSearch, readFilterSearch } from './filter.ts';

/** URL search parameters of the usage page. Pure. */

/** Usage is grouped by the fields that it is filtered by. */
export const USAGE_GROUPS: readonly UsageGroup[] = FILTER_FIELDS;

type UsageSearch = FilterSearch & {
  metric?: 'requests' | 'tokens' | 'cost' | 'times';
  group?: UsageGroup;
  bucket?: 'minute' | 'hour' | 'day';
};

export function readUsageSearch(search: Record<string, unknown>): UsageSearch {
  const { metric, group, bucket } = search;
  const found: UsageSearch = readFilterSearch(search);
  if (metric === 'requests' || metric === 'tokens' || metric === 'cost' || metric === 'times')
    found.metric = metric;
  const known = USAGE_GROUPS.find((each) => each === group);
  if (known !== undefined) found.group = known;
  if (bucket === 'minute' || bucket === 'hour' || bucket === 'day') found.bucket = bucket;
  return found;
}

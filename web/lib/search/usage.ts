import { type FilterSearch, readFilterSearch } from './filter.ts';

/** URL search parameters of the usage page. Pure. */
type UsageSearch = FilterSearch & {
  metric?: 'requests' | 'tokens' | 'cost' | 'times';
  group?: 'account' | 'key' | 'model';
  bucket?: 'minute' | 'hour' | 'day';
};

export function readUsageSearch(search: Record<string, unknown>): UsageSearch {
  const { metric, group, bucket } = search;
  const found: UsageSearch = readFilterSearch(search);
  if (metric === 'requests' || metric === 'tokens' || metric === 'cost' || metric === 'times')
    found.metric = metric;
  if (group === 'account' || group === 'key' || group === 'model') found.group = group;
  if (bucket === 'minute' || bucket === 'hour' || bucket === 'day') found.bucket = bucket;
  return found;
}

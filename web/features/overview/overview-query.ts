import { queryOptions } from '@tanstack/react-query';
import type { RequestFilter, RequestPage } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';
import { api, ApiError, queryString } from '../../lib/api.ts';
import { type Range, RANGES } from '../../lib/filter-search.ts';
import type { Base } from '../../lib/live-store.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** By their length. */
export const BUCKET_NAMES = { [MINUTE_MS]: 'minute', [HOUR_MS]: 'hour', [DAY_MS]: 'day' } as const;
const RUNNING_MAX = 100;
/** Those that run are listed first, so that so many have ended among the newest. */
const LAST_MAX = 30;

/** Figures to begin with, and whose they are. */
export type Overview = Base & {
  filter: RequestFilter;
  range: Range;
  bucketMs: keyof typeof BUCKET_NAMES;
  /** Keys and models were too many to tell apart over this time. */ isWhole: boolean;
};

/**
 * What the tables know of a range, all of its time included. It begins where a bucket does, so that
 * figures by time, by key and by model are of the very same calls.
 */
export const overviewQuery = (filter: RequestFilter, range: Range) =>
  queryOptions({
    queryKey: ['overview', filter, range],
    queryFn: async ({ signal }): Promise<Overview> => {
      const nowMs = Date.now();
      const bucketMs = bucketOfRange(range, filter);
      const unitMs = RANGES[range] > DAY_MS ? DAY_MS : bucketMs;
      const fromMs = Math.floor((nowMs - RANGES[range]) / unitMs) * unitMs;
      const { account, key, model } = filter;
      const time = { account, key, model, from: new Date(fromMs).toISOString() };
      const get = <T>(path: string, query: Record<string, string | number | undefined>): Promise<T> =>
        api<T>('GET', `${path}${queryString(query)}`, undefined, signal);
      const [series, groups, last, running] = await Promise.all([
        get<UsageReport>('/api/usage', { ...time, bucket: BUCKET_NAMES[bucketMs] }),
        get<UsageReport>('/api/usage', { ...time, group_by: 'key,model' }).catch(whenTooMuch),
        get<RequestPage>('/api/requests', { account, key, model, limit: LAST_MAX }),
        get<RequestPage>('/api/requests', { account, key, model, outcome: 'running', limit: RUNNING_MAX }),
      ]);
      return {
        series,
        groups: groups ?? { ...series, rows: [] },
        isWhole: groups === null,
        last,
        running,
        filter,
        range,
        bucketMs,
        buckets: Math.floor((nowMs - fromMs) / bucketMs) + 1,
      };
    },
    // Brought on by the feed from its position, which only the newest is near enough for.
    staleTime: 0,
    gcTime: 0,
  });

/**
 * All accounts together may have more keys than can be summed up one by one; what they come to is still to be
 * shown.
 */
function whenTooMuch(error: unknown): null {
  if (error instanceof ApiError && error.code === 'report_too_slow') return null;
  throw error;
}

/** Minutes for what is short. By key or model there are no hours of longer ago than two days. */
function bucketOfRange(range: Range, { key, model }: RequestFilter): keyof typeof BUCKET_NAMES {
  if (range === '15m' || range === '1h') return MINUTE_MS;
  return range === '24h' || (range === '7d' && key === undefined && model === undefined) ? HOUR_MS : DAY_MS;
}

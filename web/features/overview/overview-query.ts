import { queryOptions } from '@tanstack/react-query';
import type { RequestFilter, RequestPage } from '#server/contract/requests.ts';
import type { UsageReport } from '#server/contract/usage.ts';
import { api, ApiError, queryString } from '../../lib/api/api.ts';
import { type Range, RANGES } from '../../lib/search/filter.ts';
import type { Base } from '../../lib/feed/live-store.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
/** Bucket names by length. */
export const BUCKET_NAMES = { [MINUTE_MS]: 'minute', [HOUR_MS]: 'hour', [DAY_MS]: 'day' } as const;
const RUNNING_MAX = 100;
/** Running requests are listed first, so more rows are fetched than shown. */
const LAST_MAX = 30;

/** The initial figures and their filter. */
export type Overview = Base & {
  filter: RequestFilter;
  range: Range;
  bucketMs: keyof typeof BUCKET_NAMES;
  /** True if there were too many keys and models to group by. */ isWhole: boolean;
};

/**
 * The projected figures of a range. The range starts at a bucket boundary, so that figures by time, key and
 * model cover the same requests.
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
        get<UsageReport>('/api/v1/usage', { ...time, bucket: BUCKET_NAMES[bucketMs] }),
        get<UsageReport>('/api/v1/usage', { ...time, group_by: 'key,model' }).catch(whenTooMuch),
        get<RequestPage>('/api/v1/requests', { account, key, model, limit: LAST_MAX }),
        get<RequestPage>('/api/v1/requests', { account, key, model, outcome: 'running', limit: RUNNING_MAX }),
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
    // The live feed continues from its position, so only a fresh result is usable.
    staleTime: 0,
    gcTime: 0,
  });

/** All accounts together may have too many keys to group by. The totals are shown nevertheless. */
function whenTooMuch(error: unknown): null {
  if (error instanceof ApiError && error.code === 'query_timeout') return null;
  throw error;
}

/** Minutes for short ranges. Hours per key or model are retained for two days. */
function bucketOfRange(range: Range, { key, model }: RequestFilter): keyof typeof BUCKET_NAMES {
  if (range === '15m' || range === '1h') return MINUTE_MS;
  return range === '24h' || (range === '7d' && key === undefined && model === undefined) ? HOUR_MS : DAY_MS;
}

import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { UsageFigures, UsageReport } from '#server/contract/usage.ts';
import { api, queryString } from '../../lib/api/api.ts';
import { type Query, seriesQuery, type UsageWanted } from './buckets.ts';

export type UsageShown = {
  series: UsageReport;
  /** Totals of the range per group. */
  ranking: UsageReport;
  /** Totals of the range, with percentiles. */
  totals: UsageFigures;
  /** False if there were too many groups per bucket. */
  isGrouped: boolean;
};

export const usageQuery = (wanted: UsageWanted) =>
  queryOptions({
    queryKey: ['usage', wanted],
    queryFn: async ({ signal }): Promise<UsageShown> => {
      const query = seriesQuery(wanted, Date.now());
      const get = (asked: Query): Promise<UsageReport> =>
        api<UsageReport>('GET', `/api/usage${queryString(asked)}`, undefined, signal);
      const { bucket: _, group_by: __, ...whole } = query;
      const [series, ranking, { totals }] = await Promise.all([
        get(query),
        get({ ...whole, group_by: wanted.group, percentiles: wanted.hasTimes ? 'true' : undefined }),
        get(whole),
      ]);
      if ((series.rows_omitted ?? 0) === 0) return { series, ranking, totals, isGrouped: !wanted.hasTimes };
      return { series: await get({ ...query, group_by: undefined }), ranking, totals, isGrouped: false };
    },
    placeholderData: keepPreviousData,
  });

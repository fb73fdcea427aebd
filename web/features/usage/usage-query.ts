import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { UsageFigures, UsageReport } from '#server/contract/usage.ts';
import { api, queryString } from '../../lib/api.ts';
import { type Query, seriesQuery, type UsageWanted } from './buckets.ts';

export type UsageShown = {
  series: UsageReport;
  /** Of the whole time, by the group. */
  ranking: UsageReport;
  /** Of the whole time, percentiles included. */
  totals: UsageFigures;
  /** False where there were too many rows to take each bucket apart. */
  isApart: boolean;
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
      if ((series.rows_omitted ?? 0) === 0) return { series, ranking, totals, isApart: !wanted.hasTimes };
      return { series: await get({ ...query, group_by: undefined }), ranking, totals, isApart: false };
    },
    placeholderData: keepPreviousData,
  });

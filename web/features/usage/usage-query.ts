import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import type { UsageFigures, UsageGroup, UsageReport, UsageRow } from '#server/contract/usage.ts';
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
        api<UsageReport>('GET', `/api/v1/usage${queryString(asked)}`, undefined, signal);
      const { bucket: _, group_by: __, ...whole } = query;
      // Whose pseudonyms they are is known by the account.
      const groups = wanted.needsAccount ? `account,${wanted.group}` : wanted.group;
      const [series, ranked, { totals }] = await Promise.all([
        get(query),
        get({ ...whole, group_by: groups, percentiles: wanted.hasTimes ? 'true' : undefined }),
        get(whole),
      ]);
      const ranking = wanted.needsAccount ? withOneUnattributed(ranked, wanted.group) : ranked;
      if ((series.rows_omitted ?? 0) === 0) return { series, ranking, totals, isGrouped: !wanted.hasTimes };
      return { series: await get({ ...query, group_by: undefined }), ranking, totals, isGrouped: false };
    },
    placeholderData: keepPreviousData,
  });

/** The requests without an end user, session or tag in one row, not in one for each account. */
function withOneUnattributed(report: UsageReport, group: UsageGroup): UsageReport {
  const { unattributed = [], attributed = [] } = Object.groupBy(report.rows ?? [], (row) =>
    row[group] === '' ? 'unattributed' : 'attributed',
  );
  const [first, ...others] = unattributed;
  return first === undefined ? report : { ...report, rows: [others.reduce(sumOf, first), ...attributed] };
}

/** Percentiles can't be added: a row of several has none. */
function sumOf(one: UsageRow, other: UsageRow): UsageRow {
  const { account: _, ...sum } = { ...one };
  for (const [name, value] of Object.entries(other)) {
    const before: unknown = one[name as keyof UsageRow];
    if (/_p\d+_ms$/.test(name)) Object.assign(sum, { [name]: null });
    else if (name.endsWith('_nanousd'))
      Object.assign(sum, { [name]: String(BigInt(String(before)) + BigInt(String(value))) });
    else if (typeof before === 'number' && typeof value === 'number')
      Object.assign(sum, { [name]: before + value });
  }
  return sum;
}

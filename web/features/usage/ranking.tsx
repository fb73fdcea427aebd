import { Link } from '@tanstack/react-router';
import type { AttributionName } from '#server/contract/attribution.ts';
import type { UsageGroup, UsageReport, UsageRow } from '#server/contract/usage.ts';
import { type FilterSearch, readFilterSearch } from '../../lib/search/filter.ts';
import { showCost, showCount, showDuration, showPercent, showShort } from '../../lib/format/show.ts';
import { errorShareOf, tallyOf } from '../../lib/feed/tally.ts';
import { AttributedText } from '../../ui/attribution/attributed.tsx';
import { SumCost } from '../../ui/estimate.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { isAttributed } from './group-names.ts';
import { type Metric, METRICS } from './metrics.ts';

const SHOWN = 100;

type RankingProps = {
  report: UsageReport;
  metric: Metric;
  group: UsageGroup;
  search: FilterSearch;
  nameOf: (id: string) => string;
  accountNameOf: (id: string) => string;
  /** The values of end users, sessions or tags, by their pseudonyms. */
  attributed: ReadonlyMap<string, AttributionName>;
};

/** The rows of a report that are shown, by a metric. */
export function rankedRows({ rows = [] }: UsageReport, metric: Metric): UsageRow[] {
  const { valueOf } = METRICS[metric];
  return rows.toSorted((one, other) => valueOf(other) - valueOf(one)).slice(0, SHOWN);
}

/** Accounts, keys or models, sorted by the selected metric. */
export function Ranking({ report, metric, group, search, nameOf, accountNameOf, attributed }: RankingProps) {
  const rows = rankedRows(report, metric);
  const more = (report.rows ?? []).length - rows.length + (report.rows_omitted ?? 0);
  return (
    <Card title={`By ${FIELD_NAMES[group].toLowerCase()}`} flush>
      <Table
        label={`Usage by ${FIELD_NAMES[group].toLowerCase()}`}
        keyOf={(row) => row[group] ?? ''}
        rows={rows}
        empty={<p className="px-4 py-10 text-center text-muted">No requests in this time range.</p>}
        columns={columnsOf({ report, metric, group, search, nameOf, accountNameOf, attributed })}
      />
      {more > 0 && (
        <p className="px-4 py-2 text-muted">{showCount(more)} more. Download the CSV for all rows.</p>
      )}
    </Card>
  );
}

/** With the account of a pseudonym, so that the page can show and change its filter. */
const accountOf = ({ account }: UsageRow): FilterSearch => (account === undefined ? {} : { account });

const showTime = (ms: number | null | undefined): string => (ms == null ? '–' : showDuration(ms));

function columnsOf({
  report,
  metric,
  group,
  search,
  nameOf,
  accountNameOf,
  attributed,
}: RankingProps): Column<UsageRow>[] {
  const total = METRICS[metric].valueOf(report.totals);
  const name: Column<UsageRow> = {
    head: FIELD_NAMES[group],
    cell: (row) => {
      const id = row[group] ?? '';
      if (id === '')
        return (
          <span
            className="text-muted"
            {...(group === 'model' ? { title: 'Rejected before its model was read' } : {})}
          >
            None
          </span>
        );
      return (
        <Link
          to="/requests"
          search={readFilterSearch({ ...search, [group]: id, ...accountOf(row) })}
          className="block max-w-60 truncate hover:underline"
        >
          {isAttributed(group) ? <AttributedText pseudonym={id} name={attributed.get(id)} /> : nameOf(id)}
        </Link>
      );
    },
  };
  const counts: Column<UsageRow>[] = [
    ...(isAttributed(group) && report.group_by.includes('account')
      ? [
          {
            head: 'Account',
            isExtra: true,
            cell: (row: UsageRow) => row.account && accountNameOf(row.account),
          },
        ]
      : []),
    { head: 'Requests', align: 'right', cell: (row) => showCount(row.requests + row.refused) },
    {
      head: 'Errors',
      align: 'right',
      cell: (row) => showPercent(errorShareOf(tallyOf(row)) ?? 0),
    },
  ];
  if (metric === 'times') {
    return [
      name,
      ...counts,
      { head: 'TTFT (median)', align: 'right', cell: (row) => showTime(row.first_byte_p50_ms) },
      { head: 'TTFT (p95)', align: 'right', cell: (row) => showTime(row.first_byte_p95_ms) },
      { head: 'Duration (median)', align: 'right', cell: (row) => showTime(row.duration_p50_ms) },
      { head: 'Duration (p95)', align: 'right', cell: (row) => showTime(row.duration_p95_ms) },
    ];
  }
  return [
    name,
    ...counts,
    { head: 'Input tokens', align: 'right', cell: (row) => showShort(row.input_tokens) },
    { head: 'Cached', align: 'right', cell: (row) => showShort(row.cache_read_tokens) },
    { head: 'Output tokens', align: 'right', cell: (row) => showShort(row.output_tokens) },
    { head: 'Cost', align: 'right', cell: (row) => <SumCost sum={row} /> },
    ...(report.totals.upstream_cost_nanousd === undefined
      ? []
      : [
          {
            head: 'Upstream cost',
            align: 'right' as const,
            isExtra: true,
            cell: (row: UsageRow) => showCost(row.upstream_cost_nanousd ?? 0),
          },
        ]),
    {
      head: 'Share',
      align: 'right',
      cell: (row) => (total > 0 ? showPercent(METRICS[metric].valueOf(row) / total) : '–'),
    },
  ];
}

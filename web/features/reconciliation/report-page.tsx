import { useQuery } from '@tanstack/react-query';
import { Link, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { ClassRow, ReconciliationReport } from '#server/contract/reconciliations.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { showCost, showCount, showCounted } from '../../lib/format/show.ts';
import { Download } from '../../ui/download.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Badge, Card, Empty, Facts, Figure } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';
import { Cells } from './cells.tsx';
import { Differences } from './differences.tsx';
import { reconciliationsQuery, reportQuery } from './queries.ts';
import { showInterval, showSigned } from './words.ts';

/** One recorded comparison: its totals, its differences and the three columns by day. */
export function ReportPage() {
  const { id } = useSearch({ from: '/inside/admin/reconciliation/report' });
  const query = useQuery(reportQuery(id));
  const report = query.data ?? undefined;
  useNotices(['reconciliation.'], [reconciliationsQuery.queryKey]);
  const href = (format: string): string =>
    `/api/v1/reconciliations/${encodeURIComponent(report?.id ?? '')}/report?format=${format}`;
  return (
    <>
      <PageHead
        title={report === undefined ? 'Reconciliation' : `Bill of ${report.provider || 'unnamed provider'}`}
        about={
          <>
            <Link to="/admin/reconciliation" className="underline hover:text-ink">
              Reconciliation
            </Link>
            {report !== undefined && ` · ${showInterval(report.from, report.to)}`}
          </>
        }
      >
        {report !== undefined && (
          <>
            <Download
              href={href('differences')}
              name="Differences CSV"
              title="Download all differences as CSV"
            />
            <Download href={href('days')} name="Days CSV" title="Download the amounts by day as CSV" />
            <Download href={href('text')} name="Text" title="Download the report as text" />
          </>
        )}
      </PageHead>
      <Loaded query={query} title="Couldn’t load the reconciliation" height="h-[40rem]">
        {(shown) =>
          shown === null ? (
            <Empty icon="scale" title="No bills compared yet">
              The newest comparison is shown here.
            </Empty>
          ) : (
            <div className="flex flex-col gap-4 *:min-w-0">
              <Totals report={shown} />
              <Classes classes={shown.classes} />
              <Differences report={shown} />
              <Cells cells={shown.cells} omitted={shown.cells_omitted} timeZone={shown.time_zone} />
              <About report={shown} />
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function Totals({ report }: { report: ReconciliationReport }) {
  const figures: [label: string, value: ReactNode, note: ReactNode][] = [
    ['Provider’s bill', showCost(report.bill_nanousd), showCounted(report.lines, 'line')],
    ['Event log', showCost(report.log_nanousd), showCounted(report.attempts, 'attempt')],
    ['Charged to accounts', showCost(report.charged_nanousd), 'For the same requests'],
    [
      'Differences',
      showSigned(BigInt(report.differences_nanousd)),
      `${showCount(report.within_tolerance)} within tolerance`,
    ],
    [
      'Unexplained',
      showCost(report.unexplained_nanousd),
      report.unexplained_nanousd === 0 ? 'Log + differences = bill' : 'Log + differences ≠ bill',
    ],
  ];
  return (
    <Card flush>
      <div className="grid grid-cols-2 md:grid-cols-3 xl:grid-cols-5">
        {figures.map(([label, value, note]) => (
          <Figure key={label} label={label} value={value} note={note} />
        ))}
      </div>
      <p className="border-t border-line px-4 py-2.5 text-muted">
        {report.tolerance_nanousd === 0 && report.tolerance_ppm === 0
          ? 'No tolerance: every difference is listed.'
          : `Tolerance: ${showCost(report.tolerance_nanousd)} or ${showCount(report.tolerance_ppm)} ppm of ` +
            'the billed amount, whichever is larger. Differences within it are marked and stay in all sums.'}
      </p>
    </Card>
  );
}

const CLASS_COLUMNS: readonly Column<ClassRow>[] = [
  {
    head: 'Class',
    cell: ({ class: id, name, meaning, action }) => (
      <>
        <Link
          to="/admin/reconciliation/report"
          search={(search) => ({ ...search, class: id })}
          className="font-medium hover:underline"
        >
          {name}
        </Link>
        <p className="max-w-2xl max-md:hidden">{meaning}</p>
        <p className="max-w-2xl text-muted">{action}</p>
      </>
    ),
  },
  { head: 'Count', align: 'right', cell: ({ count }) => showCount(count) },
  { head: 'Bill − log', align: 'right', cell: (row) => showSigned(BigInt(row.amount_nanousd)) },
];

function Classes({ classes }: { classes: readonly ClassRow[] }) {
  return (
    <Card title="Differences by class" flush>
      <Table
        label="Differences by class"
        rows={classes}
        keyOf={({ class: id }) => id}
        columns={CLASS_COLUMNS}
        empty={
          <p className="px-4 py-10 text-center">
            <Badge tone="success">Bill and log agree</Badge>
          </p>
        }
      />
    </Card>
  );
}

function About({ report }: { report: ReconciliationReport }) {
  const foreign = Object.entries(report.foreign);
  return (
    <Card title="Comparison">
      <Facts
        facts={[
          ['Recorded', <When key="at" time={report.recorded_at} />],
          [
            'Event',
            <Link key="event" to="/audit" search={{ at: report.position }} className="underline">
              Position {showCount(report.position)}
            </Link>,
          ],
          [
            'Report digest',
            <code key="digest" className="font-mono text-xs break-all">
              {report.report_digest}
            </code>,
          ],
          ['Log compared', `Up to position ${showCount(report.up_to_position)}`],
          ['Days of', report.time_zone],
          ['Upstreams', report.upstreams.length === 0 ? 'All' : report.upstreams.join(', ')],
          [
            'Other currencies',
            foreign.length > 0 &&
              `${foreign
                .map(([currency, amount]) => `${showCost(amount).replace('$', '')} ${currency}`)
                .join(', ')}: without an exchange rate, in no total`,
          ],
          ['Notes', report.notes.length > 0 && report.notes.join(' ')],
        ]}
      />
    </Card>
  );
}

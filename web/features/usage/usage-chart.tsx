import type { UsageGroup } from '#server/contract/usage.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { Bars, type Bar } from '../../ui/chart/bars.tsx';
import { ChartFrame } from '../../ui/chart/frame.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { type Chart, chartOf } from './bars-of.ts';
import { type Metric, METRICS } from './metrics.ts';
import type { UsageShown } from './usage-query.ts';

/** The metric over time as bars stacked by the largest groups. */
export function UsageChart({
  shown,
  metric,
  group,
  nameOf,
}: {
  shown: UsageShown;
  metric: Metric;
  group: UsageGroup;
  nameOf: (id: string) => string;
}) {
  const zone = useZone();
  const chart = chartOf(shown, { metric, group, zone, nameOf });
  const { bucket } = shown.series;
  const { name, show } = METRICS[metric];
  const title = `${name} per ${bucket ?? 'day'}`;
  const isUngrouped = !shown.isGrouped && metric !== 'times';
  return (
    <ChartFrame
      title={title}
      chart={
        <>
          <Bars
            {...chart}
            show={show}
            isWhole={metric === 'requests' || metric === 'tokens'}
            label={metric === 'times' ? title : `${title} by ${group}`}
          />
          {isUngrouped && (
            <p className="mt-2 text-xs text-muted">
              Too many groups for this time range. Select a shorter range, a key or a model.
            </p>
          )}
        </>
      }
      table={
        <Table
          label={title}
          keyOf={({ atMs }) => String(atMs)}
          rows={chart.bars.toReversed()}
          columns={columnsOf(chart, show)}
        />
      }
    />
  );
}

const columnsOf = ({ series }: Chart, show: (value: number) => string): Column<Bar>[] => [
  { head: 'Time', cell: ({ title }) => <span className="whitespace-nowrap">{title}</span> },
  ...series.map(({ name }, index): Column<Bar> => ({
    head: name,
    align: 'right',
    cell: ({ values, readout }) => show((readout ?? values)[index] ?? 0),
  })),
];

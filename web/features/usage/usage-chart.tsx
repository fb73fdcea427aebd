import type { UsageGroup } from '#server/contract/usage.ts';
import { useZone } from '../../lib/preferences.ts';
import { Bars, type Bar } from '../../ui/chart/bars.tsx';
import { ChartFrame } from '../../ui/chart/frame.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { type Chart, chartOf } from './bars-of.ts';
import { type Metric, METRICS } from './metrics.ts';
import type { UsageShown } from './usage-query.ts';

/** The metric over time, one part of each bar for each of the largest groups. */
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
  const isTooMuch = !shown.isApart && metric !== 'times';
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
          {isTooMuch && (
            <p className="mt-2 text-xs text-muted">
              Each bar would have too many parts for this time: choose a shorter one, or narrow it to a key or
              model.
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
    cell: ({ values, told }) => show((told ?? values)[index] ?? 0),
  })),
];

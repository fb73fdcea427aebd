import type { UsageGroup, UsageReport, UsageRow } from '#server/contract/usage.ts';
import type { Zone } from '../../lib/format/show.ts';
import type { Bar, Series } from '../../ui/chart/bars.tsx';
import { REST, SERIES } from '../../ui/chart/colours.ts';
import { bucketLabel, bucketTitle } from '../../ui/chart/times.ts';
import { BUCKETS_MS } from './buckets.ts';
import { type Metric, METRICS } from './metrics.ts';
import type { UsageShown } from './usage-query.ts';

/** A report as chart bars, one for each bucket including empty ones. */
export type Chart = { series: Series[]; bars: Bar[] };

const BARS_MAX = 3_000;

type Wanted = { metric: Metric; group: UsageGroup; zone: Zone; nameOf: (id: string) => string };

export function chartOf(
  { series: report, ranking, isGrouped }: UsageShown,
  { metric, group, zone, nameOf }: Wanted,
): Chart {
  const { valueOf } = METRICS[metric];
  const at = (rows: readonly UsageRow[]): Map<number, UsageRow[]> =>
    Map.groupBy(rows, ({ from }) => Date.parse(from ?? ''));
  const byTime = at(report.rows ?? []);
  const bars = (partsOf: (rows: readonly UsageRow[]) => Pick<Bar, 'values' | 'readout'>): Bar[] =>
    bucketStarts(report).map((atMs) => ({
      ...captions(report, atMs, zone),
      ...partsOf(byTime.get(atMs) ?? []),
    }));

  if (metric === 'times') {
    return {
      series: [
        { name: 'Median', colour: SERIES[0] },
        { name: '95th percentile', colour: SERIES[1] },
      ],
      bars: bars(([row]) => {
        const [half, most] = [row?.first_byte_p50_ms ?? 0, row?.first_byte_p95_ms ?? 0];
        return { values: [half, most - half], readout: [half, most] };
      }),
    };
  }
  if (!isGrouped)
    return {
      series: [{ name: METRICS[metric].name, colour: SERIES[0] }],
      bars: bars(([row]) => ({ values: [row ? valueOf(row) : 0] })),
    };

  const ranked = (ranking.rows ?? [])
    .toSorted((one, other) => valueOf(other) - valueOf(one))
    .filter((row) => valueOf(row) > 0);
  const names = ranked.slice(0, SERIES.length).map((row) => row[group] ?? '');
  const ranks = new Map(names.map((name, index) => [name, index]));
  const hasRest = ranked.length > names.length;
  const shown = names.map((name, index) => ({ name: nameOf(name), colour: SERIES[index] ?? REST }));
  return {
    series: hasRest ? [...shown, { name: 'Others', colour: REST }] : shown,
    bars: bars((rows) => {
      const values = Array.from({ length: names.length + (hasRest ? 1 : 0) }, () => 0);
      for (const row of rows) {
        const rank = ranks.get(row[group] ?? '') ?? names.length;
        if (rank < values.length) values[rank] = (values[rank] ?? 0) + valueOf(row);
      }
      return { values };
    }),
  };
}

/** The start of each bucket of a report. */
function bucketStarts({ from, to, bucket }: UsageReport): number[] {
  const stepMs = BUCKETS_MS[bucket ?? 'day'];
  const [fromMs, toMs] = [Date.parse(from), Date.parse(to)];
  return Array.from(
    { length: Math.min(BARS_MAX, Math.max(0, Math.ceil((toMs - fromMs) / stepMs))) },
    (_, index) => fromMs + index * stepMs,
  );
}

function captions(
  { from, to, bucket }: UsageReport,
  atMs: number,
  zone: Zone,
): Pick<Bar, 'atMs' | 'label' | 'title'> {
  const bucketMs = BUCKETS_MS[bucket ?? 'day'];
  return {
    atMs,
    label: bucketLabel(atMs, bucketMs, zone, Date.parse(to) - Date.parse(from)),
    title: bucketTitle(atMs, bucketMs, zone),
  };
}

import { useZone } from '../../lib/preferences.ts';
import type { Zone } from '../../lib/show.ts';
import { showCount, showShort } from '../../lib/show.ts';
import { callsOf, type Tally } from '../../lib/tally.ts';
import { Bars } from '../../ui/chart/bars.tsx';
import { FAULTY, SERVED } from '../../ui/chart/colours.ts';
import { ChartFrame } from '../../ui/chart/frame.tsx';
import { bucketLabel, bucketTitle } from '../../ui/chart/times.ts';
import { type Column, Table } from '../../ui/table.tsx';
import { BUCKET_NAMES, type Overview } from './overview-query.ts';

const SERIES = [
  { name: 'Served', colour: SERVED },
  { name: 'Refused or failed', colour: FAULTY },
];

type Bucket = { atMs: number; tally: Tally };

/** Requests over time, by how they ended. */
export function CallsChart({
  buckets,
  bucketMs,
}: {
  buckets: readonly Bucket[];
  bucketMs: Overview['bucketMs'];
}) {
  const zone = useZone();
  const title = `Requests per ${BUCKET_NAMES[bucketMs]}`;
  const bars = buckets.map(({ atMs, tally }) => ({
    atMs,
    label: bucketLabel(atMs, bucketMs, zone, bucketMs * buckets.length),
    title: bucketTitle(atMs, bucketMs, zone),
    values: [tally.served, tally.refused + tally.failed],
  }));
  return (
    <ChartFrame
      title={title}
      chart={<Bars series={SERIES} bars={bars} show={showShort} label={`${title}, by how they ended`} />}
      table={
        <Table
          label={title}
          keyOf={({ atMs }) => String(atMs)}
          rows={buckets.toReversed()}
          columns={columnsOf(bucketMs, zone)}
        />
      }
    />
  );
}

const columnsOf = (bucketMs: number, zone: Zone): Column<Bucket>[] => [
  { head: 'Time', cell: ({ atMs }) => bucketTitle(atMs, bucketMs, zone) },
  { head: 'All', align: 'right', cell: ({ tally }) => showCount(callsOf(tally)) },
  { head: 'Served', align: 'right', cell: ({ tally }) => showCount(tally.served) },
  { head: 'Refused', align: 'right', cell: ({ tally }) => showCount(tally.refused) },
  { head: 'Failed', align: 'right', cell: ({ tally }) => showCount(tally.failed) },
];

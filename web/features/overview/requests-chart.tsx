import { useZone } from '../../lib/hooks/preferences.ts';
import { showCount, showShort, type Zone } from '../../lib/format/show.ts';
import { requestCountOf, type Tally } from '../../lib/feed/tally.ts';
import { Bars } from '../../ui/chart/bars.tsx';
import { FAULTY, SERVED } from '../../ui/chart/colours.ts';
import { ChartFrame } from '../../ui/chart/frame.tsx';
import { bucketLabel, bucketTitle } from '../../ui/chart/times.ts';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { BUCKET_NAMES, type Overview } from './overview-query.ts';

const SERIES = [
  { name: 'Successful', colour: SERVED },
  { name: 'Errors', colour: FAULTY },
];

type Bucket = { atMs: number; tally: Tally };

/** Requests over time by outcome. */
export function RequestsChart({
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
    values: [tally.successful, tally.rejected + tally.failed],
  }));
  return (
    <ChartFrame
      title={title}
      chart={<Bars series={SERIES} bars={bars} show={showShort} label={`${title}by outcome`} />}
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
  { head: 'Total', align: 'right', cell: ({ tally }) => showCount(requestCountOf(tally)) },
  { head: 'Successful', align: 'right', cell: ({ tally }) => showCount(tally.successful) },
  { head: 'Rejected', align: 'right', cell: ({ tally }) => showCount(tally.rejected) },
  { head: 'Failed', align: 'right', cell: ({ tally }) => showCount(tally.failed) },
];

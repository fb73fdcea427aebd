import { Link } from '@tanstack/react-router';
import type { SinkRow } from '#server/contract/sinks.ts';
import { showCount } from '../../lib/format/show.ts';
import { Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { SinkFailure, SinkLag, SinkState } from '../../ui/sink-marks.tsx';
import { Ago } from '../../ui/when.tsx';

const COLUMNS: readonly Column<SinkRow>[] = [
  { head: 'Name', cell: ({ name }) => <span className="font-medium">{name}</span> },
  {
    head: 'State',
    cell: (sink) => (
      <>
        <SinkState {...sink} />
        <SinkFailure sink={sink} />
      </>
    ),
  },
  { head: 'Lag', align: 'right', cell: (sink) => <SinkLag {...sink} /> },
  { head: 'Position', align: 'right', cell: ({ position }) => showCount(position), isExtra: true },
  {
    head: 'Last delivery',
    cell: ({ delivered_at: at }) =>
      at === null ? <span className="text-muted">Never</span> : <Ago time={at} />,
    isExtra: true,
  },
];

/** The receivers of spend events. */
export function Sinks({ sinks }: { sinks: readonly SinkRow[] }) {
  return (
    <Card
      title="Sinks"
      flush
      actions={
        <Link to="/admin/sinks" className="text-xs underline hover:text-accent">
          View sinks
        </Link>
      }
    >
      <Table label="Sinks" rows={sinks} keyOf={({ id }) => id} columns={COLUMNS} />
    </Card>
  );
}

import type { Status } from '#server/contract/status.ts';
import { BEHIND_TOLD_MIN } from '../../lib/behind.ts';
import { showCount, showCounted } from '../../lib/show.ts';
import { Badge, Card } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { When } from '../../ui/when.tsx';

type Projection = Status['projections'][number];

const COLUMNS: readonly Column<Projection>[] = [
  {
    head: 'Name',
    cell: ({ name, state }) => (
      <span className="inline-flex flex-wrap items-center gap-2">
        <code className="font-mono text-xs">{name}</code>
        {state === 'detached' && <Badge>being rebuilt</Badge>}
      </span>
    ),
  },
  { head: 'Behind', align: 'right', cell: ({ behind }) => <Behind events={behind} /> },
  {
    head: 'Parked',
    align: 'right',
    cell: ({ parked: count }) => (count === 0 ? '0' : <Badge tone="warn">{showCount(count)}</Badge>),
  },
  { head: 'Position', align: 'right', cell: ({ position }) => showCount(position), isExtra: true },
  {
    head: 'As of',
    cell: ({ as_of }) =>
      as_of === null ? <span className="text-muted">before the first event</span> : <When time={as_of} />,
    isExtra: true,
  },
];

/** The tables that lists and figures are read from, and how far behind the log each of them is. */
export function Projections({ projections }: { projections: readonly Projection[] }) {
  const parked = projections.reduce((sum, each) => sum + each.parked, 0);
  return (
    <Card title="Projections" flush>
      {parked > 0 && (
        <p className="border-b border-line bg-warn-soft px-4 py-2 text-warn">
          {showCount(parked)} {parked === 1 ? 'event is' : 'events are'} parked: they stand in the log, but
          could not be taken into the figures, which lack them. The worker's log names them. After an update
          that understands them, rebuild the projection:{' '}
          <code className="font-mono text-xs">daybook projections rebuild</code>.
        </p>
      )}
      <Table
        label="Projections"
        rows={projections}
        keyOf={({ name, state }) => `${name} ${state}`}
        empty={<p className="px-4 py-6 text-muted">No projection has begun. They do when a worker runs.</p>}
        columns={COLUMNS}
      />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        Limits never read these tables: a call is judged by what enforces, however far behind they are.
      </p>
    </Card>
  );
}

function Behind({ events }: { events: number }) {
  const text = showCounted(events, 'event');
  // What was appended in the moment of asking is no delay.
  return events < BEHIND_TOLD_MIN ? (
    <span className="whitespace-nowrap">{text}</span>
  ) : (
    <Badge tone="warn">{text}</Badge>
  );
}

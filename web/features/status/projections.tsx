import type { Status } from '#server/contract/status.ts';
import { BEHIND_SHOWN_MIN } from '../../lib/api/queries.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Badge, Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';

type Projection = Status['projections'][number];

const COLUMNS: readonly Column<Projection>[] = [
  {
    head: 'Name',
    cell: ({ name, state }) => (
      <span className="inline-flex flex-wrap items-center gap-2">
        <code className="font-mono text-xs">{name}</code>
        {state === 'detached' && <Badge>Rebuilding</Badge>}
      </span>
    ),
  },
  { head: 'Lag', align: 'right', cell: ({ behind }) => <Behind events={behind} /> },
  {
    head: 'Parked',
    align: 'right',
    cell: ({ parked: count }) => (count === 0 ? '0' : <Badge tone="warn">{showCount(count)}</Badge>),
  },
  { head: 'Position', align: 'right', cell: ({ position }) => showCount(position), isExtra: true },
  {
    head: 'Up to date as of',
    cell: ({ as_of }) =>
      as_of === null ? <span className="text-muted">Not started</span> : <When time={as_of} />,
    isExtra: true,
  },
];

/** The projections behind lists and figures, with their lag. */
export function Projections({ projections }: { projections: readonly Projection[] }) {
  const parked = projections.reduce((sum, each) => sum + each.parked, 0);
  return (
    <Card title="Projections" flush>
      {parked > 0 && (
        <p className="border-b border-line bg-warn-soft px-4 py-2 text-warn">
          {showCount(parked)} {parked === 1 ? 'event is' : 'events are'} parked: recorded in the log, but not
          processed and not included in figures. The worker’s log has the reason. Events of a newer version
          are read again after the worker is updated.
        </p>
      )}
      <Table
        label="Projections"
        rows={projections}
        keyOf={({ name, state }) => `${name} ${state}`}
        empty={<p className="px-4 py-6 text-muted">No projections yet. Start a worker.</p>}
        columns={COLUMNS}
      />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        Projections are the tables behind lists and figures. Limit enforcement never depends on them.
      </p>
    </Card>
  );
}

function Behind({ events }: { events: number }) {
  const text = showCounted(events, 'event');
  // A smaller lag is normal.
  return events < BEHIND_SHOWN_MIN ? (
    <span className="whitespace-nowrap">{text}</span>
  ) : (
    <Badge tone="warn">{text}</Badge>
  );
}

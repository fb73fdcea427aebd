import { Link } from '@tanstack/react-router';
import type { Status } from '#server/contract/status.ts';
import { Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';

const COLUMNS: readonly Column<Status['upstreams'][number]>[] = [
  { head: 'Name', cell: ({ name }) => <span className="font-medium">{name}</span> },
  {
    head: 'Base URL',
    cell: ({ origin }) => <code className="font-mono text-xs wrap-anywhere">{origin}</code>,
  },
  { head: 'Models', cell: ({ models }) => <span className="break-words">{models.join(', ')}</span> },
];

/** The configured upstreams. */
export function Upstreams({ upstreams }: { upstreams: Status['upstreams'] }) {
  return (
    <Card
      title="Upstreams"
      flush
      actions={
        <Link to="/admin/upstreams" className="text-xs underline hover:text-accent">
          View health
        </Link>
      }
    >
      <Table label="Upstreams" rows={upstreams} keyOf={({ name }) => name} columns={COLUMNS} />
    </Card>
  );
}

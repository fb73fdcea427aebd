import type { Status } from '#server/dashboard/contract-service.ts';
import { Card, Empty } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';

const COLUMNS: readonly Column<Status['upstreams'][number]>[] = [
  { head: 'Name', cell: ({ name }) => <span className="font-medium">{name}</span> },
  { head: 'Address', cell: ({ origin }) => <code className="font-mono text-xs wrap-anywhere">{origin}</code> },
  { head: 'Models', cell: ({ models }) => <span className="break-words">{models.join(', ')}</span> },
];

/** Where calls are passed on to, as configured. */
export function Upstreams({ upstreams }: { upstreams: Status['upstreams'] }) {
  return (
    <Card title="Upstreams" flush>
      <Table
        label="Upstreams"
        rows={upstreams}
        keyOf={({ name }) => name}
        empty={
          <Empty icon="layers" title="No upstream is configured">
            Set <code className="font-mono text-xs">DAYBOOK_UPSTREAMS</code> and start the server again; until then only the built-in demo models answer.
          </Empty>
        }
        columns={COLUMNS}
      />
    </Card>
  );
}

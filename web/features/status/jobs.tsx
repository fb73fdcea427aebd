import type { Status } from '#server/contract/status.ts';
import { showCount } from '../../lib/format/show.ts';
import { Badge, Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';

type Job = Status['jobs'][number];

const COLUMNS: readonly Column<Job>[] = [
  {
    head: 'Name',
    cell: ({ name, state }) => (
      <span className="inline-flex flex-wrap items-center gap-2">
        <code className="font-mono text-xs">{name}</code>
        {state === 'failing' && <Badge tone="warn">Failing</Badge>}
      </span>
    ),
  },
  {
    head: 'Last success',
    cell: ({ succeeded_at: at }) =>
      at === null ? <span className="text-muted">Never</span> : <When time={at} />,
  },
  { head: 'Failures in a row', align: 'right', cell: ({ failures }) => showCount(failures), isExtra: true },
  { head: 'Reason', cell: ({ reason }) => reason ?? <span className="text-muted">None</span>, isExtra: true },
];

/** The worker's background jobs; failing ones first. */
export function Jobs({ jobs }: { jobs: readonly Job[] }) {
  const failing = jobs.filter(({ state }) => state === 'failing');
  return (
    <Card title="Background jobs" flush>
      {failing.length > 0 && (
        <p className="border-b border-line bg-warn-soft px-4 py-2 text-warn">
          Failing: {failing.map(({ name, reason }) => `${name} (${reason ?? 'unknown reason'})`).join(', ')}.
          The worker’s log has each failed run.
        </p>
      )}
      <Table
        label="Background jobs"
        rows={[...failing, ...jobs.filter(({ state }) => state === 'ok')]}
        keyOf={({ name }) => name}
        empty={<p className="px-4 py-6 text-muted">No job has run yet. Start a worker.</p>}
        columns={COLUMNS}
      />
    </Card>
  );
}

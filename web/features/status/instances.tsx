import type { Status } from '#server/contract/status.ts';
import { Badge, Card } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { Ago, When } from '../../ui/when.tsx';
import { capitalized, showCounted } from '../../lib/format/show.ts';

type Instance = Status['instances'][number];

/** An instance name has a kind, a host and a process id. */
const kindOf = (name: string): string => {
  const [kind = ''] = name.split(' ', 1);
  return kind === 'dashboard' ? 'Control writer' : capitalized(kind);
};

const columns = (current: number): Column<Instance>[] => [
  {
    head: 'Process',
    cell: ({ id, name }) => (
      <>
        <p>
          {kindOf(name)}
          {id === current && <span className="text-muted"> (this server)</span>}
        </p>
        <p className="text-xs text-muted wrap-anywhere">
          Instance {id}, {name}
        </p>
      </>
    ),
  },
  {
    head: 'State',
    cell: ({ state, dropped_lines: dropped, output_failure: failure }) => (
      <>
        {state === 'live' ? <Badge tone="success">Live</Badge> : <Badge tone="warn">Not responding</Badge>}
        {failure !== null && <p className="text-xs text-warn">Log output fails with {failure}</p>}
        {dropped > 0 && <p className="text-xs text-muted">{showCounted(dropped, 'log line')} dropped</p>}
      </>
    ),
  },
  { head: 'Last heartbeat', cell: ({ heartbeat_at }) => <Ago time={heartbeat_at} /> },
  { head: 'Started', cell: ({ started_at }) => <When time={started_at} />, isExtra: true },
];

/** Every process connected to this database. */
export function Instances({
  instances,
  current,
}: {
  instances: readonly Instance[];
  /** The instance that serves this page. */ current: number;
}) {
  const hasWorker = instances.some(({ kind, state }) => kind === 'worker' && state === 'live');
  return (
    <Card title="Processes" flush>
      {!hasWorker && (
        <p className="border-b border-line bg-warn-soft px-4 py-2 text-warn">
          No worker is running. Requests are still relayed, but lists and figures are not updated and alerts
          are not sent. Start a worker.
        </p>
      )}
      <Table label="Processes" rows={instances} keyOf={({ id }) => String(id)} columns={columns(current)} />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        A process that stops sending heartbeats is fenced: its running requests are ended in the log, and it
        can’t write any more.
      </p>
    </Card>
  );
}

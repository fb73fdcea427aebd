import type { Status } from '#server/contract/status.ts';
import { Badge, Card } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Ago, When } from '../../ui/when.tsx';

type Instance = Status['instances'][number];

/** Processes name themselves: by what they are, their host and their number there. */
const whatOf = (name: string): string => {
  const [what = ''] = name.split(' ', 1);
  return what === 'dashboard' ? 'Changes made here' : what.charAt(0).toUpperCase() + what.slice(1);
};

const columns = (answering: number): Column<Instance>[] => [
  {
    head: 'Process',
    cell: ({ id, name }) => (
      <>
        <p>
          {whatOf(name)}
          {id === answering && <span className="text-muted"> (answers this page)</span>}
        </p>
        <p className="text-xs text-muted wrap-anywhere">
          instance {id}, {name}
        </p>
      </>
    ),
  },
  {
    head: 'State',
    cell: ({ state }) =>
      state === 'live' ? <Badge tone="good">live</Badge> : <Badge tone="warn">late</Badge>,
  },
  { head: 'Last sign of life', cell: ({ heartbeat_at }) => <Ago time={heartbeat_at} /> },
  { head: 'Running since', cell: ({ started_at }) => <When time={started_at} />, isExtra: true },
];

/** Every process that works on this store. */
export function Instances({
  instances,
  answering,
}: {
  instances: readonly Instance[];
  /** The number of the server that answers this page. */ answering: number;
}) {
  const hasWorker = instances.some(({ kind, state }) => kind === 'worker' && state === 'live');
  return (
    <Card title="Processes" flush>
      {!hasWorker && (
        <p className="border-b border-line bg-warn-soft px-4 py-2 text-warn">
          No worker is running. Calls pass as before; lists and figures stand still, and no alerts are sent,
          until one is started.
        </p>
      )}
      <Table label="Processes" rows={instances} keyOf={({ id }) => String(id)} columns={columns(answering)} />
      <p className="border-t border-line px-4 py-2.5 text-xs text-muted">
        A process that is late has not been heard of for a while. If it stays away it is declared dead: its
        open calls are ended in the log, and it can write nothing any more.
      </p>
    </Card>
  );
}

import type { AlertRow } from '#server/contract/alerts.ts';
import { showCount } from '../../lib/show.ts';
import { Badge, Empty } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { When } from '../../ui/when.tsx';
import { alertLine } from './alert-words.ts';

const COLUMNS: readonly Column<AlertRow>[] = [
  { head: 'When', cell: ({ raised_at: at }) => <When time={at} />, isExtra: true },
  {
    head: 'What',
    cell: (alert) => (
      <div>
        {alert.state === 'recovered' ? (
          <Badge tone="good">over</Badge>
        ) : alert.kind === 'test' ? (
          <Badge>test</Badge>
        ) : (
          <Badge tone="warn">alert</Badge>
        )}{' '}
        {alertLine(alert)}
        <p className="text-xs text-muted md:hidden">
          {alert.account_name ?? 'the installation'}, <When time={alert.raised_at} />
        </p>
      </div>
    ),
  },
  {
    head: 'Account',
    cell: ({ account, account_name: name }) =>
      account === null ? <span className="text-muted">the installation</span> : (name ?? account),
    isExtra: true,
  },
  { head: 'Sent', cell: ({ deliveries }) => <Sent {...deliveries} /> },
];

export function AlertList({ alerts }: { alerts: readonly AlertRow[] }) {
  return (
    <Table
      label="Alerts"
      rows={alerts}
      keyOf={({ id }) => id}
      columns={COLUMNS}
      empty={
        <Empty icon="bell" title="Nothing had to be told yet">
          Alerts are raised by the worker: of quotas at 50, 80 and 100 %, of keys about to end, of upstreams
          that fail, and of figures that fall behind.
        </Empty>
      }
    />
  );
}

function Sent({ delivered, pending: waiting, failed }: AlertRow['deliveries']) {
  if (delivered + waiting + failed === 0) return <span className="text-muted">to nobody</span>;
  return (
    <span className="inline-flex flex-wrap gap-1">
      {delivered > 0 && <Badge tone="good">{showCount(delivered)} delivered</Badge>}
      {waiting > 0 && <Badge tone="warn">{showCount(waiting)} waiting</Badge>}
      {failed > 0 && <Badge tone="bad">{showCount(failed)} failed</Badge>}
    </span>
  );
}

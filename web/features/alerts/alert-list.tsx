import { pseudonymIn, withName } from '#db/alerts/alert-name.ts';
import { alertPath } from '#db/alerts/alert-path.ts';
import type { AlertRow } from '#server/contract/alerts.ts';
import { useAttributedNames } from '../../lib/api/attribution.ts';
import { useZone } from '../../lib/hooks/preferences.ts';
import { showCount } from '../../lib/format/show.ts';
import { Badge, Empty } from '../../ui/layout/parts.tsx';
import { type Column, Table } from '../../ui/layout/table.tsx';
import { When } from '../../ui/when.tsx';
import { alertLine } from './alert-words.ts';

const COLUMNS: readonly Column<AlertRow>[] = [
  { head: 'Time', cell: ({ raised_at: at }) => <When time={at} />, isExtra: true },
  {
    head: 'Alert',
    cell: (alert) => (
      <div>
        {alert.state === 'recovered' ? (
          <Badge tone="success">Resolved</Badge>
        ) : alert.kind === 'test' ? (
          <Badge>Test</Badge>
        ) : (
          <Badge tone="warn">Triggered</Badge>
        )}{' '}
        <AlertText alert={alert} />
        <p className="text-xs text-muted md:hidden">
          {alert.account_name ?? 'System'}, <When time={alert.raised_at} />
        </p>
      </div>
    ),
  },
  {
    head: 'Account',
    cell: ({ account, account_name: name }) =>
      account === null ? <span className="text-muted">System</span> : (name ?? account),
    isExtra: true,
  },
  { head: 'Deliveries', cell: ({ deliveries }) => <Sent {...deliveries} /> },
];

type AlertListProps = { alerts: readonly AlertRow[]; isFiltered: boolean };

export function AlertList({ alerts, isFiltered }: AlertListProps) {
  return (
    <Table
      label="Alerts"
      rows={alerts}
      keyOf={({ id }) => id}
      columns={COLUMNS}
      empty={
        isFiltered ? (
          <Empty icon="filter" title="No matching alerts">
            Of the newest alerts none is about all of these. An alert that isn’t about a model matches no
            filter by model.
          </Empty>
        ) : (
          <Empty icon="alert" title="No alerts yet">
            You are alerted when a quota reaches 50, 80 or 100% or is projected to be exceeded, when usage is
            unusual, a key is about to expire, an upstream fails, or figures fall behind.
          </Empty>
        )
      }
    />
  );
}

/** The sentence, as a link to the calls or the resource that it is about. */
function AlertText({ alert }: { alert: AlertRow }) {
  const zone = useZone();
  const named = pseudonymIn(alert);
  const names = useAttributedNames(
    named === null || alert.account === null ? [] : [{ account: alert.account, ...named }],
  );
  const value = (named && names.get(named.pseudonym)?.value) ?? null;
  const line = alertLine(withName(alert, value), zone);
  if (alert.kind === 'test') return line;
  return (
    <a href={alertPath(alert)} className="underline decoration-line-strong hover:decoration-current">
      {line}
    </a>
  );
}

function Sent({ delivered, pending: waiting, failed }: AlertRow['deliveries']) {
  if (delivered + waiting + failed === 0) return <span className="text-muted">None</span>;
  return (
    <span className="inline-flex flex-wrap gap-1">
      {delivered > 0 && <Badge tone="success">{showCount(delivered)} delivered</Badge>}
      {waiting > 0 && <Badge tone="warn">{showCount(waiting)} pending</Badge>}
      {failed > 0 && <Badge tone="danger">{showCount(failed)} failed</Badge>}
    </span>
  );
}

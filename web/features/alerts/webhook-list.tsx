import type { WebhookRow } from '#server/dashboard/contract-service.ts';
import { type NameOf, useAccountNames } from '../../lib/names.ts';
import { showCount } from '../../lib/show.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Empty } from '../../ui/parts.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { ALERTS, KINDS } from './alert-words.ts';

type WebhookListProps = { webhooks: readonly WebhookRow[]; /** Auditors only look. */ mayChange: boolean; onShow: (webhook: WebhookRow) => void; onRemove: (webhook: WebhookRow) => void };

/** Where alerts are sent. Of an address only its origin is known: the rest may be a secret. */
export function WebhookList({ webhooks, ...rest }: WebhookListProps) {
  const nameOf = useAccountNames();
  return (
    <Table
      label="Webhooks"
      rows={webhooks}
      keyOf={({ id }) => id}
      columns={columns(nameOf, rest)}
      empty={
        <Empty icon="bell" title="Alerts are sent nowhere">
          {rest.mayChange ? 'Add a webhook: an address of yours that takes a signed POST for each alert.' : 'An administrator can add a webhook: an address that takes a signed POST for each alert.'}
        </Empty>
      }
    />
  );
}

const columns = (nameOf: NameOf, { mayChange, onShow, onRemove }: Omit<WebhookListProps, 'webhooks'>): Column<WebhookRow>[] => [
  {
    head: 'To',
    cell: ({ id, origin }) => (
      <>
        <p className="font-medium break-all">{origin}</p>
        <code className="font-mono text-xs text-muted">{id}</code>
      </>
    ),
  },
  { head: 'State', cell: (webhook) => <WebhookState webhook={webhook} /> },
  { head: 'Alerts', cell: ({ alerts }) => (alerts.length === KINDS.length ? 'all' : alerts.map((kind) => ALERTS[kind].name.toLowerCase()).join(', ')), isExtra: true },
  { head: 'About', cell: ({ account }) => (account === null ? 'all accounts' : nameOf(account)), isExtra: true },
  {
    head: <span className="sr-only">Actions</span>,
    align: 'right',
    cell: (webhook) => (
      <span className="inline-flex flex-wrap justify-end gap-1">
        <Button look="quiet" onClick={() => onShow(webhook)} aria-label={`${mayChange ? 'Test and deliveries' : 'Deliveries'} of webhook ${webhook.id} to ${webhook.origin}`}>
          {mayChange ? 'Test, deliveries' : 'Deliveries'}
        </Button>
        {mayChange && (
          <Button look="quiet" onClick={() => onRemove(webhook)} aria-label={`Remove webhook ${webhook.id} to ${webhook.origin}`}>
            Remove
          </Button>
        )}
      </span>
    ),
  },
];

export function WebhookState({ webhook: { failures, switched_off_at: offAt } }: { webhook: WebhookRow }) {
  if (offAt !== null) return <Badge tone="bad">switched off</Badge>;
  return failures > 0 ? <Badge tone="warn">{showCount(failures)} failed in a row</Badge> : <Badge tone="good">on</Badge>;
}

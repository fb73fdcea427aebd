import type { WebhookRow } from '#server/contract/alerts.ts';
import { type NameOf, useAccountNames } from '../../lib/api/names.ts';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { ALERTS, KINDS } from './alert-words.ts';

type WebhookListProps = {
  webhooks: readonly WebhookRow[];
  /** False for auditors. */ mayChange: boolean;
  onShow: (webhook: WebhookRow) => void;
  onRemove: (webhook: WebhookRow) => void;
};

/** Webhooks by origin. The rest of a URL may be secret and is never returned. */
export function WebhookList({ webhooks, ...rest }: WebhookListProps) {
  const nameOf = useAccountNames();
  return (
    <Table
      label="Webhooks"
      rows={webhooks}
      keyOf={({ id }) => id}
      columns={columns(nameOf, rest)}
      empty={
        <Empty icon="alert" title="No webhooks yet">
          {rest.mayChange
            ? 'Add a webhook to receive a signed POST for each alert.'
            : 'An administrator can add a webhook that receives a signed POST for each alert.'}
        </Empty>
      }
    />
  );
}

const NAME_LOOK = [
  'text-left font-medium underline decoration-line-strong underline-offset-2',
  'wrap-anywhere hover:decoration-current',
].join(' ');

const columns = (
  nameOf: NameOf,
  { mayChange, onShow, onRemove }: Omit<WebhookListProps, 'webhooks'>,
): Column<WebhookRow>[] => [
  {
    head: 'Endpoint',
    cell: (webhook) => (
      <>
        <button
          type="button"
          onClick={() => onShow(webhook)}
          aria-label={`Webhook ${webhook.id}, ${webhook.origin}`}
          className={NAME_LOOK}
        >
          {webhook.origin}
        </button>
        <p className="text-xs text-muted">
          <code className="font-mono">{webhook.id}</code>
        </p>
      </>
    ),
  },
  { head: 'State', cell: (webhook) => <WebhookState webhook={webhook} /> },
  {
    head: 'Alerts',
    cell: ({ alerts }) =>
      alerts.length === KINDS.length ? 'All' : alerts.map((kind) => ALERTS[kind].name).join(', '),
    isExtra: true,
  },
  {
    head: 'Scope',
    cell: ({ account, filter }) =>
      [
        account === null ? 'All accounts' : nameOf(account),
        ...Object.entries(filter).map(
          ([field, value]) => `${FIELD_NAMES[field as keyof typeof filter].toLowerCase()} ${value}`,
        ),
      ].join(', '),
    isExtra: true,
  },
  ...(mayChange
    ? [
        actionsColumn<WebhookRow>((webhook) => (
          <Button
            look="quiet"
            className="-my-1.5 max-md:px-1"
            onClick={() => onRemove(webhook)}
            aria-label={`Remove webhook ${webhook.id}, ${webhook.origin}`}
          >
            Remove
          </Button>
        )),
      ]
    : []),
];

export function WebhookState({ webhook: { failures, disabled_at: offAt } }: { webhook: WebhookRow }) {
  if (offAt !== null) return <Badge tone="danger">Disabled</Badge>;
  return failures > 0 ? (
    <Badge tone="warn">{showCount(failures)} consecutive failures</Badge>
  ) : (
    <Badge tone="success">Active</Badge>
  );
}

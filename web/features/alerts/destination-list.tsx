import type { DestinationRow } from '#server/contract/alerts.ts';
import { type NameOf, useAccountNames } from '../../lib/api/names.ts';
import { FIELD_NAMES } from '../../lib/format/call-fields.ts';
import { showCount } from '../../lib/format/show.ts';
import { Button } from '../../ui/button.tsx';
import { Badge, Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { ALERTS, DESTINATIONS, KINDS } from './alert-words.ts';

type DestinationListProps = {
  destinations: readonly DestinationRow[];
  /** False for auditors. */ mayChange: boolean;
  onShow: (destination: DestinationRow) => void;
  onRemove: (destination: DestinationRow) => void;
};

/** Destinations by kind and label. The rest of a URL is secret and is never returned. */
export function DestinationList({ destinations, ...rest }: DestinationListProps) {
  const nameOf = useAccountNames();
  return (
    <Table
      label="Destinations"
      rows={destinations}
      keyOf={({ id }) => id}
      columns={columns(nameOf, rest)}
      empty={
        <Empty icon="alert" title="No destinations yet">
          {rest.mayChange
            ? 'Alerts can be sent to a webhook, to Slack, to Microsoft Teams and by email.'
            : 'An administrator can add a webhook, Slack, Microsoft Teams or an email address.'}
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
  { mayChange, onShow, onRemove }: Omit<DestinationListProps, 'destinations'>,
): Column<DestinationRow>[] => [
  {
    head: 'Destination',
    cell: (destination) => (
      <>
        <button
          type="button"
          onClick={() => onShow(destination)}
          aria-label={`Destination ${destination.id}, ${destination.label}`}
          className={NAME_LOOK}
        >
          {destination.label}
        </button>
        <p className="text-xs text-muted">
          {DESTINATIONS[destination.kind].name} · <code className="font-mono">{destination.id}</code>
        </p>
      </>
    ),
  },
  { head: 'State', cell: (destination) => <DestinationState destination={destination} /> },
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
        actionsColumn<DestinationRow>((destination) => (
          <Button
            look="quiet"
            className="-my-1.5 max-md:px-1"
            onClick={() => onRemove(destination)}
            aria-label={`Remove destination ${destination.id}, ${destination.label}`}
          >
            Remove
          </Button>
        )),
      ]
    : []),
];

export function DestinationState({
  destination: { failures, disabled_at: offAt },
}: {
  destination: DestinationRow;
}) {
  if (offAt !== null) return <Badge tone="danger">Disabled</Badge>;
  return failures > 0 ? (
    <Badge tone="warn">{showCount(failures)} consecutive failures</Badge>
  ) : (
    <Badge tone="success">Active</Badge>
  );
}

import type { SinkRow } from '#server/contract/sinks.ts';
import { type NameOf, useAccountNames } from '../../lib/api/names.ts';
import { showCount, showCounted, showDuration } from '../../lib/format/show.ts';
import { Menu, type MenuItem } from '../../ui/dialog/menu.tsx';
import { Empty } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { SinkFailure, SinkLag, SinkState } from '../../ui/sink-marks.tsx';
import { Ago } from '../../ui/when.tsx';
import { KINDS } from './sink-words.ts';

export type SinkAction = 'show' | 'edit' | 'move' | 'remove';
type SinkTableProps = {
  sinks: readonly SinkRow[];
  /** False for auditors. */ mayChange: boolean;
  onOpen: (action: SinkAction, sink: string) => void;
};

/** Sinks with their state and lag. Addresses and secrets are never returned. */
export function SinkTable({ sinks, ...rest }: SinkTableProps) {
  const nameOf = useAccountNames();
  return (
    <Table
      label="Sinks"
      rows={sinks}
      keyOf={({ id }) => id}
      columns={columns(nameOf, rest)}
      empty={
        <Empty icon="send" title="No sinks yet">
          {rest.mayChange
            ? 'Deliver spend events to a webhook, a CloudEvents receiver, Lago, Stripe or Kafka.'
            : 'An administrator can deliver spend events to webhooks, CloudEvents, Lago, Stripe and Kafka.'}
        </Empty>
      }
    />
  );
}

const NAME_LOOK = [
  'text-left font-medium underline decoration-line-strong underline-offset-2',
  'wrap-anywhere hover:decoration-current',
].join(' ');

const columns = (nameOf: NameOf, { mayChange, onOpen }: Omit<SinkTableProps, 'sinks'>): Column<SinkRow>[] => [
  {
    head: 'Sink',
    cell: ({ id, name, kind, account }) => (
      <>
        <button
          type="button"
          onClick={() => onOpen('show', id)}
          aria-label={`Sink ${name}`}
          className={NAME_LOOK}
        >
          {name}
        </button>
        <p className="text-xs text-muted">
          {KINDS[kind].name}
          {account !== null && ` · ${nameOf(account)}`}
        </p>
      </>
    ),
  },
  {
    head: 'State',
    cell: (sink) => (
      <>
        <SinkState {...sink} />
        {sink.behind > 0 && (
          <p className="text-xs text-muted md:hidden">
            {showCounted(sink.behind, 'event')} behind, {showDuration(sink.behind_ms)} old
          </p>
        )}
        <SinkFailure sink={sink} />
      </>
    ),
  },
  { head: 'Lag', align: 'right', cell: (sink) => <SinkLag {...sink} />, isExtra: true },
  {
    head: 'Last delivery',
    cell: ({ delivered_at: at }) =>
      at === null ? <span className="text-muted">Never</span> : <Ago time={at} />,
    isExtra: true,
  },
  { head: 'Delivered', align: 'right', cell: ({ delivered }) => showCount(delivered), isExtra: true },
  { head: 'Position', align: 'right', cell: ({ position }) => showCount(position), isExtra: true },
  actionsColumn((sink) => (
    <span className="-my-1.5 inline-flex">
      <Menu
        label={`Actions for ${sink.name}`}
        items={actionsOf(mayChange, (action) => onOpen(action, sink.id))}
      />
    </span>
  )),
];

function actionsOf(mayChange: boolean, open: (action: SinkAction) => void): MenuItem[] {
  const details: MenuItem = { label: 'Details', icon: 'list', onChoose: () => open('show') };
  if (!mayChange) return [details];
  return [
    details,
    { label: 'Edit', icon: 'cog', onChoose: () => open('edit') },
    { label: 'Move position', icon: 'clock', onChoose: () => open('move') },
    { label: 'Remove', icon: 'close', onChoose: () => open('remove'), isDanger: true },
  ];
}

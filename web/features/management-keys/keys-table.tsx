import type { ManagementKeyRow } from '#server/contract/keys.ts';
import { describeActor, type NameOf, useMemberNames } from '../../lib/api/names.ts';
import { Menu } from '../../ui/dialog/menu.tsx';
import { Badge, Empty, type Tone } from '../../ui/layout/parts.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { Ago, When } from '../../ui/when.tsx';

const STATES: Record<ManagementKeyRow['state'], [text: string, tone: Tone]> = {
  active: ['Active', 'success'],
  expired: ['Expired', 'plain'],
  revoked: ['Revoked', 'plain'],
};

type KeysTableProps = {
  keys: readonly ManagementKeyRow[];
  mayRevoke: boolean;
  onRevoke: (key: ManagementKeyRow) => void;
};

/** Management keys with their scopes. */
export function KeysTable({ keys, ...rest }: KeysTableProps) {
  const memberName = useMemberNames();
  return (
    <Table
      label="Management keys"
      rows={keys}
      keyOf={({ id }) => id}
      columns={columns(memberName, rest)}
      empty={
        <Empty icon="key" title="No management keys yet">
          {rest.mayRevoke
            ? 'Create one to manage accounts, keys and plans from scripts and other programs.'
            : 'Members create management keys to manage accounts, keys and plans from programs.'}
        </Empty>
      }
    />
  );
}

const columns = (
  memberName: NameOf,
  { mayRevoke, onRevoke }: Omit<KeysTableProps, 'keys'>,
): Column<ManagementKeyRow>[] => [
  {
    head: 'Name',
    cell: ({ id, name, last4, account_name, scopes }) => (
      <>
        <span className="block max-w-64 truncate font-medium" title={name}>
          {name}
        </span>
        <code className="block font-mono text-xs whitespace-nowrap text-muted">
          dbm_{id}_…{last4}
        </code>
        <span className="block text-xs text-muted">{account_name ?? 'All accounts'}</span>
        <span className="block text-xs text-muted md:hidden">{scopes.join(', ')}</span>
      </>
    ),
  },
  {
    head: 'State',
    cell: ({ state }) => {
      const [text, tone] = STATES[state];
      return <Badge tone={tone}>{text}</Badge>;
    },
  },
  {
    head: 'Scopes',
    cell: ({ scopes }) => (
      <span className="flex max-w-80 flex-wrap gap-1">
        {scopes.map((scope) => (
          <code key={scope} className="rounded-sm bg-sunken px-1.5 font-mono text-xs whitespace-nowrap">
            {scope}
          </code>
        ))}
      </span>
    ),
    isExtra: true,
  },
  {
    head: 'Expires',
    cell: ({ expires_at: at }) =>
      at === null ? <span className="text-muted">Never</span> : <Ago time={at} />,
  },
  {
    head: 'Created',
    cell: ({ created_at, created_by }) => (
      <>
        <When time={created_at} form="date" />
        <span className="block max-w-48 truncate text-xs text-muted">
          by {describeActor(created_by, memberName)}
        </span>
      </>
    ),
    isExtra: true,
  },
  ...(mayRevoke
    ? [
        actionsColumn<ManagementKeyRow>((key) =>
          key.state === 'active' ? (
            <span className="-my-1.5 inline-flex">
              <Menu
                label={`Actions for ${key.name}`}
                items={[{ label: 'Revoke', icon: 'close', isDanger: true, onChoose: () => onRevoke(key) }]}
              />
            </span>
          ) : null,
        ),
      ]
    : []),
];

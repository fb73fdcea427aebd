import { useQuery } from '@tanstack/react-query';
import type { MemberRow } from '#server/contract/members.ts';
import { membersQuery } from '../../lib/api/queries.ts';
import { showCount, showCounted } from '../../lib/format/show.ts';
import { Badge, Card } from '../../ui/layout/parts.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Menu } from '../../ui/dialog/menu.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { Ago, When } from '../../ui/when.tsx';
import { ROLE_NAMES } from './roles.ts';

export type MemberAct = 'role' | 'reset' | 'remove';

type MembersCardProps = {
  /** The signed-in member's id. */ own: string;
  canChange: boolean;
  onAct: (act: MemberAct, row: MemberRow) => void;
};

export function MembersCard(props: MembersCardProps) {
  const members = useQuery(membersQuery);
  const count = members.data && members.data.data.length + members.data.rows_omitted;
  return (
    <Card flush title={count === undefined ? 'Members' : showCounted(count, 'member')}>
      <Loaded query={members} title="Couldn’t load members">
        {({ data: rows, rows_omitted }) => (
          <>
            <Table label="Members" columns={columnsFor(props)} rows={rows} keyOf={({ id }) => id} />
            <Omitted count={rows_omitted} />
          </>
        )}
      </Loaded>
    </Card>
  );
}

/** The display name. Auditors don't see email addresses. */
export const nameOf = ({ email, id }: Pick<MemberRow, 'email' | 'id'>): string => email ?? `Member ${id}`;

function columnsFor({ own, canChange, onAct }: MembersCardProps): Column<MemberRow>[] {
  return [
    {
      head: 'Member',
      cell: (row) => (
        <>
          <span className="block max-w-64 truncate font-medium" title={nameOf(row)}>
            {nameOf(row)}
          </span>
          {row.id === own && <span className="text-xs text-muted">You</span>}
        </>
      ),
    },
    {
      head: 'Account',
      cell: ({ account_name }) => (
        <span className="block max-w-48 truncate" title={account_name}>
          {account_name}
        </span>
      ),
    },
    {
      head: 'Role',
      cell: ({ role }) => (
        <Badge tone={role === 'administrator' ? 'success' : 'plain'}>{ROLE_NAMES[role]}</Badge>
      ),
    },
    {
      head: 'Two-factor',
      cell: ({ has_totp }) => (has_totp ? 'On' : <span className="text-muted">Off</span>),
      isExtra: true,
    },
    {
      head: 'Last active',
      cell: ({ last_seen_at }) =>
        last_seen_at === null ? <span className="text-muted">Never</span> : <Ago time={last_seen_at} />,
    },
    { head: 'Added', cell: ({ created_at }) => <When time={created_at} form="date" />, isExtra: true },
    ...(canChange
      ? [
          actionsColumn<MemberRow>((row) => (
            <span className="-my-1.5 inline-flex">
              <Menu
                label={`Actions for ${nameOf(row)}`}
                items={[
                  { label: 'Change role', icon: 'people', onChoose: () => onAct('role', row) },
                  { label: 'Create reset link', icon: 'key', onChoose: () => onAct('reset', row) },
                  { label: 'Remove', icon: 'close', isDanger: true, onChoose: () => onAct('remove', row) },
                ]}
              />
            </span>
          )),
        ]
      : []),
  ];
}

/** A note below a list with a bound. */
export function Omitted({ count }: { count: number }) {
  if (count === 0) return null;
  return (
    <p className="border-t border-line px-4 py-2 text-muted">The oldest {showCount(count)} are not listed.</p>
  );
}

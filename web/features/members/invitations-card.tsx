import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { InvitationRow } from '#server/contract/members.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { Loaded } from '../../ui/layout/loaded.tsx';
import { Card } from '../../ui/layout/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { actionsColumn, type Column, Table } from '../../ui/layout/table.tsx';
import { Ago } from '../../ui/when.tsx';
import { useMemberChange } from './member-mutations.ts';
import { invitationsQuery } from './queries.ts';
import { Omitted } from './members-card.tsx';
import { ROLE_NAMES } from './roles.ts';

/** Invitations that are not used yet. */
export function InvitationsCard({ canChange }: { canChange: boolean }) {
  const invitations = useQuery(invitationsQuery);
  const [revoked, revoke] = useState<InvitationRow | null>(null);
  return (
    <Card flush title="Pending invitations">
      <Loaded query={invitations} title="Couldn’t load invitations" height="h-24">
        {({ data: rows, rows_omitted }) => (
          <>
            <Table
              label="Pending invitations"
              columns={columnsFor(canChange, revoke)}
              rows={rows}
              keyOf={({ id }) => id}
              empty={
                <p className="px-4 py-5 text-muted">
                  No pending invitations.{canChange && ' Invite a member to get a link that you can share.'}
                </p>
              }
            />
            <Omitted count={rows_omitted} />
          </>
        )}
      </Loaded>
      {revoked && <RevokeDialog row={revoked} onClose={() => revoke(null)} />}
    </Card>
  );
}

function columnsFor(canChange: boolean, onRevoke: (row: InvitationRow) => void): Column<InvitationRow>[] {
  return [
    {
      head: 'Account',
      cell: ({ account, account_name }) =>
        account === null ? (
          'New account'
        ) : (
          <span className="block max-w-56 truncate">{account_name ?? account}</span>
        ),
    },
    { head: 'Role', cell: ({ role }) => ROLE_NAMES[role] },
    { head: 'Created', cell: ({ created_at }) => <Ago time={created_at} />, isExtra: true },
    { head: 'Expires', cell: ({ expires_at }) => <Ago time={expires_at} /> },
    ...(canChange
      ? [
          actionsColumn<InvitationRow>((row) => (
            <Button look="quiet" className="-my-1.5" onClick={() => onRevoke(row)}>
              Revoke
            </Button>
          )),
        ]
      : []),
  ];
}

function RevokeDialog({ row, onClose }: { row: InvitationRow; onClose: () => void }) {
  const revokeInvitation = useMemberChange(
    () => api<Change>('DELETE', `/api/v1/invitations/${row.id}`),
    'Invitation revoked.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title="Revoke invitation?">
      <p className="mb-3">
        The link for the role {ROLE_NAMES[row.role].toLowerCase()} in{' '}
        {row.account === null ? 'New account' : (row.account_name ?? row.account)} stops working.
      </p>
      <FormProblem error={revokeInvitation.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={revokeInvitation.isPending} onClick={() => revokeInvitation.mutate()}>
          Revoke
        </Button>
      </DialogActions>
    </Dialog>
  );
}

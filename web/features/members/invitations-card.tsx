import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { InvitationRow } from '#server/contract/members.ts';
import { api } from '../../lib/api.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { Loaded } from '../../ui/loaded.tsx';
import { Card } from '../../ui/parts.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { actionsColumn, type Column, Table } from '../../ui/table.tsx';
import { Ago } from '../../ui/when.tsx';
import { useMemberChange } from './change-members.ts';
import { invitationsQuery } from './queries.ts';
import { Omitted } from './omitted.tsx';
import { ROLE_NAMES } from './roles.ts';

/** Links that were given out and not used yet. */
export function InvitationsCard({ canChange }: { canChange: boolean }) {
  const invitations = useQuery(invitationsQuery);
  const [withdrawn, withdraw] = useState<InvitationRow | null>(null);
  return (
    <Card flush title="Open invitations">
      <Loaded query={invitations} title="The invitations could not be loaded" height="h-24">
        {({ data: rows, rows_omitted }) => (
          <>
            <Table
              label="Open invitations"
              columns={columnsFor(canChange, withdraw)}
              rows={rows}
              keyOf={({ id }) => id}
              empty={
                <p className="px-4 py-5 text-muted">
                  None is open.{canChange && ' Invite somebody to get a link that you can pass on.'}
                </p>
              }
            />
            <Omitted count={rows_omitted} />
          </>
        )}
      </Loaded>
      {withdrawn && <WithdrawDialog row={withdrawn} onClose={() => withdraw(null)} />}
    </Card>
  );
}

function columnsFor(canChange: boolean, onWithdraw: (row: InvitationRow) => void): Column<InvitationRow>[] {
  return [
    {
      head: 'Into',
      cell: ({ account, account_name }) =>
        account === null ? (
          'an account of their own'
        ) : (
          <span className="block max-w-56 truncate">{account_name ?? account}</span>
        ),
    },
    { head: 'As', cell: ({ role }) => ROLE_NAMES[role] },
    { head: 'Made', cell: ({ created_at }) => <Ago time={created_at} />, isExtra: true },
    { head: 'Ends', cell: ({ expires_at }) => <Ago time={expires_at} /> },
    ...(canChange
      ? [
          actionsColumn<InvitationRow>((row) => (
            <Button look="quiet" className="-my-1.5" onClick={() => onWithdraw(row)}>
              Withdraw
            </Button>
          )),
        ]
      : []),
  ];
}

function WithdrawDialog({ row, onClose }: { row: InvitationRow; onClose: () => void }) {
  const withdraw = useMemberChange(
    () => api<Change>('DELETE', `/api/invitations/${row.id}`),
    'The invitation is withdrawn.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title="Withdraw the invitation">
      <p className="mb-3">
        Its link, as {ROLE_NAMES[row.role].toLowerCase()} into{' '}
        {row.account === null ? 'an account of their own' : (row.account_name ?? row.account)}, opens nothing
        any more.
      </p>
      <FormProblem error={withdraw.error} />
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={withdraw.isPending} onClick={() => withdraw.mutate()}>
          Withdraw
        </Button>
      </DialogActions>
    </Dialog>
  );
}

import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { CreatedLink, MemberRow } from '#server/contract/members.ts';
import { api } from '../../lib/api/api.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { type NewLink, useLinkMutation, useMemberChange } from './member-mutations.ts';
import { nameOf } from './members-card.tsx';
import { ROLE_CHOICES } from './roles.ts';

type MemberDialogProps = {
  row: MemberRow;
  /** Whether this is the signed-in member. */ isOwn: boolean;
  onClose: () => void;
};

export function RoleDialog({ row, isOwn, onClose }: MemberDialogProps) {
  const [role, setRole] = useState(row.role);
  const change = useMemberChange(
    () => api<Change>('PATCH', `/api/v1/members/${row.id}`, { role }),
    'Role changed.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`Change role of ${nameOf(row)}`}>
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          change.mutate();
        }}
      >
        <Choices legend="Role" choices={ROLE_CHOICES} value={role} onChange={setRole} />
        {isOwn && role !== row.role && (
          <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2 text-warn">
            This is your own role. Only another administrator can change it back.
          </p>
        )}
        {!isOwn && <p className="text-muted">Takes effect immediately in all of their sessions.</p>}
        <FormProblem error={change.error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={change.isPending} disabled={role === row.role}>
            Change role
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

export function RemoveDialog({ row, isOwn, onClose }: MemberDialogProps) {
  const remove = useMemberChange(
    () => api<Change>('DELETE', `/api/v1/members/${row.id}`),
    'Member removed.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`Remove ${nameOf(row)}?`}>
      <div className="flex flex-col gap-3">
        {isOwn && (
          <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2 text-warn">
            This is your own membership. You are signed out immediately and can’t sign in again.
          </p>
        )}
        <ul className="flex list-disc flex-col gap-1 pl-5">
          <li>Their email address and password are deleted, and all their sessions end.</li>
          <li>
            The account {row.account_name} and its keys keep working. If the member knows a secret, rotate or
            revoke that key too.
          </li>
          <li>The event log refers to them by ID only. It never contained their email address.</li>
        </ul>
        <p>They can be invited again as a new member.</p>
        <FormProblem error={remove.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
          Remove member
        </Button>
      </DialogActions>
    </Dialog>
  );
}

export function ResetDialog({
  row,
  onClose,
  onCreated,
}: Omit<MemberDialogProps, 'isOwn'> & { onCreated: (made: NewLink) => void }) {
  const make = useLinkMutation(
    'reset',
    () => api<CreatedLink>('POST', `/api/v1/members/${row.id}/reset`),
    onCreated,
  );
  return (
    <Dialog onClose={onClose} title={`Create reset link for ${nameOf(row)}`}>
      <div className="flex flex-col gap-3">
        <p>
          The member sets a new password with this link. It works once, expires after one hour and replaces
          earlier links. Anyone with the link can sign in as this member.
        </p>
        <p>Their password and sessions stay valid until the link is used.</p>
        <FormProblem error={make.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" busy={make.isPending} onClick={() => make.mutate()}>
          Create link
        </Button>
      </DialogActions>
    </Dialog>
  );
}

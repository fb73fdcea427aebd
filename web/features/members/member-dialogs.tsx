import { useState } from 'react';
import type { Change } from '#server/contract/keys.ts';
import type { CreatedLink, MemberRow } from '#server/contract/members.ts';
import { api } from '../../lib/api.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { type Made, useLinkMaking, useMemberChange } from './change-members.ts';
import { nameOf } from './members-card.tsx';
import { ROLE_CHOICES } from './roles.ts';

type MemberDialogProps = {
  row: MemberRow;
  /** It is about whoever looks. */ isOwn: boolean;
  onClose: () => void;
};

export function RoleDialog({ row, isOwn, onClose }: MemberDialogProps) {
  const [role, setRole] = useState(row.role);
  const change = useMemberChange(
    () => api<Change>('PATCH', `/api/members/${row.id}`, { role }),
    'They have another role.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`The role of ${nameOf(row)}`}>
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
            This is your own role. You cannot take it back yourself: another administrator has to.
          </p>
        )}
        {!isOwn && (
          <p className="text-muted">It holds from their next click on, in every session that they have.</p>
        )}
        <FormProblem error={change.error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={change.isPending} disabled={role === row.role}>
            Change the role
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

export function RemoveDialog({ row, isOwn, onClose }: MemberDialogProps) {
  const remove = useMemberChange(
    () => api<Change>('DELETE', `/api/members/${row.id}`),
    'The member is removed.',
    onClose,
  );
  return (
    <Dialog onClose={onClose} title={`Remove ${nameOf(row)}`}>
      <div className="flex flex-col gap-3">
        {isOwn && (
          <p role="note" className="rounded-lg border border-warn bg-warn-soft px-3 py-2 text-warn">
            This is you. You are signed out at once and cannot sign in again.
          </p>
        )}
        <ul className="flex list-disc flex-col gap-1 pl-5">
          <li>Their e-mail address and password are erased, and all their sessions end at once.</li>
          <li>
            The account {row.account_name} and its keys stay, and calls with those keys go on. If they know a
            secret, rotate or revoke that key too.
          </li>
          <li>The event log goes on to name them by their id alone. It never held their address.</li>
        </ul>
        <p>They can be invited again, as somebody new.</p>
        <FormProblem error={remove.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="danger" busy={remove.isPending} onClick={() => remove.mutate()}>
          Remove
        </Button>
      </DialogActions>
    </Dialog>
  );
}

export function ResetDialog({
  row,
  onClose,
  onMade,
}: Omit<MemberDialogProps, 'isOwn'> & { onMade: (made: Made) => void }) {
  const make = useLinkMaking('reset', () => api<CreatedLink>('POST', `/api/members/${row.id}/reset`), onMade);
  return (
    <Dialog onClose={onClose} title={`A reset link for ${nameOf(row)}`}>
      <div className="flex flex-col gap-3">
        <p>
          By the link they choose a new password. It is good once and for an hour, and ends an earlier one.
          Whoever has it can sign in as them, so give it to nobody else.
        </p>
        <p>
          Until it is used, their password and sessions stay as they are; then all their other sessions end.
        </p>
        <FormProblem error={make.error} />
      </div>
      <DialogActions>
        <Button onClick={onClose}>Cancel</Button>
        <Button look="primary" busy={make.isPending} onClick={() => make.mutate()}>
          Make the link
        </Button>
      </DialogActions>
    </Dialog>
  );
}

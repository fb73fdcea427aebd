import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { Role } from '#db/events/parts.ts';
import type { CreatedLink } from '#server/contract/members.ts';
import { api } from '../../lib/api/api.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { welcomeQuery } from '../../lib/api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Choices } from '../../ui/form/choices.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextField } from '../../ui/form/field.tsx';
import { NamedOptions } from '../../ui/form/options.tsx';
import { fieldError, FormProblem } from '../../ui/problem.tsx';
import { type NewLink, useLinkMutation } from './member-mutations.ts';
import { ROLE_CHOICES } from './roles.ts';

/** The option value for a new account. */
const OWN = '';

export function InviteDialog({
  onClose,
  onCreated,
}: {
  onClose: () => void;
  onCreated: (made: NewLink) => void;
}) {
  const { data: accounts = [] } = useQuery(accountsQuery);
  const welcome = useQuery(welcomeQuery);
  const [role, setRole] = useState<Role>('member');
  const [account, setAccount] = useState(OWN);
  const [email, setEmail] = useState('');
  const canSend = welcome.data?.can_send_mail === true;
  const invite = useLinkMutation(
    'invitation',
    () =>
      api<CreatedLink>('POST', '/api/v1/invitations', {
        role,
        account: account === OWN ? null : account,
        ...(email.trim() === '' || !canSend ? {} : { email: email.trim() }),
      }),
    onCreated,
  );
  return (
    <Dialog onClose={onClose} title="Invite member">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          invite.mutate();
        }}
      >
        <SelectField
          label="Account"
          value={account}
          onChange={({ target }) => setAccount(target.value)}
          hint={
            account === OWN
              ? 'Named by the member on joining. Starts on the plan for new accounts.'
              : 'The member shares its keys, usage and limits.'
          }
          error={fieldError(invite.error, 'account')}
        >
          <option value={OWN}>New account</option>
          <NamedOptions rows={accounts} />
        </SelectField>
        <Choices legend="Role" choices={ROLE_CHOICES} value={role} onChange={setRole} />
        {canSend && (
          <TextField
            label="Email (optional)"
            type="email"
            autoComplete="off"
            maxLength={254}
            hint="We also email the link to this address."
            value={email}
            onChange={({ target }) => setEmail(target.value)}
            error={fieldError(invite.error, 'email')}
          />
        )}
        <p className="text-muted">
          Creates a link that can be used once and expires after one day. Anyone with the link can join.
        </p>
        <FormProblem error={invite.error} fields={['account', 'email']} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" busy={invite.isPending}>
            Create link
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

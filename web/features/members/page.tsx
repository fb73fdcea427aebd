import { useState } from 'react';
import type { MemberRow } from '#server/contract/members.ts';
import { membersQuery } from '../../lib/api/queries.ts';
import { useIsAdministrator, useMe } from '../../lib/api/session.ts';
import { useNotices } from '../../lib/feed/use-notices.ts';
import { useShortcuts } from '../../lib/hooks/use-shortcuts.ts';
import { Button } from '../../ui/button.tsx';
import { announceChange } from '../../ui/change.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import type { NewLink } from './member-mutations.ts';
import { InvitationsCard } from './invitations-card.tsx';
import { InviteDialog } from './invite-dialog.tsx';
import { LinkDialog } from './link-dialog.tsx';
import { RemoveDialog, ResetDialog, RoleDialog } from './member-dialogs.tsx';
import { type MemberAct, MembersCard } from './members-card.tsx';
import { invitationsQuery, providersQuery, registrationQuery, signInQuery } from './queries.ts';
import { PasswordsCard } from './passwords-card.tsx';
import { ProvidersCard } from './providers-card.tsx';
import { RegistrationCard } from './registration-card.tsx';

type Open = { act: 'invite' } | { act: MemberAct; row: MemberRow } | { act: 'made'; made: NewLink };

export function MembersPage() {
  const { member } = useMe();
  const canChange = useIsAdministrator();
  useNotices(
    ['member.', 'invitation.', 'registration.', 'identity_provider.', 'sign_in.'],
    [membersQuery, invitationsQuery, registrationQuery, providersQuery, signInQuery].map(
      ({ queryKey }) => queryKey,
    ),
  );
  const [open, setOpen] = useState<Open | null>(null);
  const close = (): void => setOpen(null);
  const show = (made: NewLink): void => setOpen({ act: 'made', made });
  useShortcuts(canChange ? { n: () => setOpen({ act: 'invite' }) } : {});
  return (
    <>
      <PageHead
        title="Members"
        about={
          canChange
            ? 'People who can sign in, and their roles.'
            : 'People who can sign in. Only administrators see email addresses.'
        }
      >
        {canChange && (
          <Button look="primary" icon="plus" onClick={() => setOpen({ act: 'invite' })} title="n">
            Invite member
          </Button>
        )}
      </PageHead>
      <div className="flex flex-col gap-5">
        <MembersCard own={member.id} canChange={canChange} onAct={(act, row) => setOpen({ act, row })} />
        <InvitationsCard canChange={canChange} />
        <ProvidersCard canChange={canChange} />
        <PasswordsCard canChange={canChange} />
        <RegistrationCard canChange={canChange} />
      </div>
      {open?.act === 'invite' && <InviteDialog onClose={close} onCreated={show} />}
      {open?.act === 'role' && (
        <RoleDialog row={open.row} isOwn={open.row.id === member.id} onClose={close} />
      )}
      {open?.act === 'reset' && <ResetDialog row={open.row} onClose={close} onCreated={show} />}
      {open?.act === 'remove' && (
        <RemoveDialog row={open.row} isOwn={open.row.id === member.id} onClose={close} />
      )}
      {open?.act === 'made' && (
        <LinkDialog
          made={open.made}
          onClose={() => {
            const { why, link } = open.made;
            // A reset link changes nothing until it is used.
            if (why === 'invitation') announceChange('Invitation created.', link);
            close();
          }}
        />
      )}
    </>
  );
}

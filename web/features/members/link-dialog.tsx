import { SecretDialog } from '../../ui/dialog/secret-dialog.tsx';
import { When } from '../../ui/when.tsx';
import type { NewLink } from './member-mutations.ts';

const WORDS: Record<NewLink['why'], { title: string; about: string }> = {
  invitation: {
    title: 'Invitation link',
    about: 'Share it only with the person you invite.',
  },
  reset: {
    title: 'Password reset link',
    about: 'Share it only with this member: it sets a new password.',
  },
};

/** Shows an invitation or reset link once. */
export function LinkDialog({ made: { why, link }, onClose }: { made: NewLink; onClose: () => void }) {
  const { title, about } = WORDS[why];
  return (
    <SecretDialog title={title} secret={link.link} what="link" about={about} onClose={onClose}>
      <p>
        Valid for one use, until <When time={link.expires_at} />.
        {link.email_sent && ' It was also sent by email.'}
      </p>
    </SecretDialog>
  );
}

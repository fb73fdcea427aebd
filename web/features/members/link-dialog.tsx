import { Once } from '../../ui/once.tsx';
import { When } from '../../ui/when.tsx';
import type { Made } from './change-members.ts';

const WORDS: Record<Made['why'], { title: string; about: string }> = {
  invitation: {
    title: 'An invitation',
    about: 'Pass it on to whom it is for: whoever opens it first joins.',
  },
  reset: {
    title: 'A reset link',
    about: 'Pass it on to whom it is for: whoever opens it chooses their password.',
  },
};

/** A link that lets somebody in, once. */
export function LinkDialog({ made: { why, link }, onClose }: { made: Made; onClose: () => void }) {
  const { title, about } = WORDS[why];
  return (
    <Once title={title} secret={link.link} what="link" about={about} onClose={onClose}>
      <p>
        It is good once, until <When time={link.expires_at} />.
        {link.email_sent && ' It was sent by e-mail as well.'}
      </p>
    </Once>
  );
}

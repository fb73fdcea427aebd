import type { Role } from '#db/events/parts.ts';
import type { Choice } from '../../ui/choices.tsx';

export const ROLE_NAMES: Record<Role, string> = {
  member: 'Member',
  administrator: 'Administrator',
  auditor: 'Auditor',
};

/** What each role may do. */
export const ROLE_CHOICES: readonly Choice<Role>[] = [
  {
    value: 'member',
    label: ROLE_NAMES.member,
    hint: 'Makes calls; sees and manages the keys, requests and usage of their own account.',
  },
  {
    value: 'administrator',
    label: ROLE_NAMES.administrator,
    hint: 'Manages everything: accounts, members, plans, prices, alerts and all keys.',
  },
  {
    value: 'auditor',
    label: ROLE_NAMES.auditor,
    hint: 'Looks at everything and changes nothing. Sees no e-mail addresses.',
  },
];

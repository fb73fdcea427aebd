import type { Role } from '#db/events/parts.ts';
import type { Choice } from '../../ui/form/choices.tsx';

export const ROLE_NAMES: Record<Role, string> = {
  member: 'Member',
  administrator: 'Administrator',
  auditor: 'Auditor',
};

/** Roles with their permissions. */
export const ROLE_CHOICES: readonly Choice<Role>[] = [
  {
    value: 'member',
    label: ROLE_NAMES.member,
    hint: 'Sends requests. Manages keys and sees requests and usage of their own account.',
  },
  {
    value: 'administrator',
    label: ROLE_NAMES.administrator,
    hint: 'Full access: accounts, members, plans, prices, upstreams, alerts and all keys.',
  },
  {
    value: 'auditor',
    label: ROLE_NAMES.auditor,
    hint: 'Read-only access to everything except email addresses.',
  },
];

import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { LinkMade } from '#server/dashboard/contract-accounts.ts';
import type { Change } from '#server/dashboard/contract-keys.ts';
import { membersQuery } from '../../lib/members-query.ts';
import { meQuery, welcomeQuery } from '../../lib/session.ts';
import { announceChange } from '../../ui/change.tsx';
import { invitationsQuery, registrationQuery } from './queries.ts';

/** How the page's dialogs change who may come and do what. */

/** All that such a change may alter; one's own role too. */
const ALTERED = [membersQuery, invitationsQuery, registrationQuery, meQuery, welcomeQuery].map(({ queryKey }) => queryKey);

/**
 * Carries out a change, tells of its event, and has what it altered fetched anew.
 * @param done what to say of it: "They have another role."
 */
export function useMemberChange<Input>(ask: (input: Input) => Promise<Change>, done: string, onDone: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ask,
    onSuccess: (change) => {
      for (const queryKey of ALTERED) void queries.invalidateQueries({ queryKey });
      announceChange(done, change);
      onDone();
    },
  });
}

/** A link that lets somebody in, as long as it is on the screen. */
export type Made = { why: 'invitation' | 'reset'; link: LinkMade };

/** The same for what makes a link: it goes to whoever shows it, and nothing of it stays here. */
export function useLinkMaking<Input>(why: Made['why'], ask: (input: Input) => Promise<LinkMade>, show: (made: Made) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (input: Input): Promise<void> => show({ why, link: await ask(input) }),
    onSuccess: () => queries.invalidateQueries({ queryKey: invitationsQuery.queryKey }),
  });
}

import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import type { CreatedLink } from '#server/contract/members.ts';
import { membersQuery } from '../../lib/members-query.ts';
import { meQuery, welcomeQuery } from '../../lib/session.ts';
import { useChange } from '../../ui/use-change.ts';
import { invitationsQuery, registrationQuery } from './queries.ts';

/** How the page's dialogs change who may come and do what. */

/** All that such a change may alter; one's own role too. */
const ALTERED = [membersQuery, invitationsQuery, registrationQuery, meQuery, welcomeQuery].map(
  ({ queryKey }) => queryKey,
);

/** Carries out such a change. @param done what to say of it: "They have another role." */
export const useMemberChange = (ask: () => Promise<Change>, done: string, onDone: () => void) =>
  useChange(ask, { done, altered: ALTERED, onDone });

/** A link that lets somebody in, as long as it is on the screen. */
export type Made = { why: 'invitation' | 'reset'; link: CreatedLink };

/** What makes a link: it goes to whoever shows it, and nothing of it stays here. */
export function useLinkMaking(why: Made['why'], ask: () => Promise<CreatedLink>, show: (made: Made) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (): Promise<void> => show({ why, link: await ask() }),
    onSuccess: () => queries.invalidateQueries({ queryKey: invitationsQuery.queryKey }),
  });
}

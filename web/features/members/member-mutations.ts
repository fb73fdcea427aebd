import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import type { CreatedLink } from '#server/contract/members.ts';
import { membersQuery } from '../../lib/api/queries.ts';
import { meQuery, welcomeQuery } from '../../lib/api/session.ts';
import { useChange } from '../../ui/use-change.ts';
import { invitationsQuery, providersQuery, registrationQuery, signInQuery } from './queries.ts';

/** Mutations of the member dialogs. */

/** Queries that such a change may affect, including the member's own role. */
const ALTERED = [
  membersQuery,
  invitationsQuery,
  registrationQuery,
  providersQuery,
  signInQuery,
  meQuery,
  welcomeQuery,
].map(({ queryKey }) => queryKey);

/** Runs a change of members. @param done the confirmation, such as "Role changed." */
export const useMemberChange = (ask: () => Promise<Change>, done: string, onDone: () => void) =>
  useChange(ask, { done, invalidates: ALTERED, onDone });

/** An invitation or reset link while it is visible. */
export type NewLink = { why: 'invitation' | 'reset'; link: CreatedLink };

/** Creates a link and passes it on without keeping it. */
export function useLinkMutation(
  why: NewLink['why'],
  ask: () => Promise<CreatedLink>,
  show: (made: NewLink) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (): Promise<void> => show({ why, link: await ask() }),
    onSuccess: () => queries.invalidateQueries({ queryKey: invitationsQuery.queryKey }),
  });
}

import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change, CreatedKey } from '#server/contract/keys.ts';
import { keysQuery } from '../../lib/api/names.ts';
import { useChange } from '../../ui/use-change.ts';

/** Mutations of the key dialogs. */

/** A secret while it is visible. It is never stored in a query or mutation cache. */
export type NewSecret = {
  why: 'created' | 'rotated' | 'leaked';
  id: string;
  name: string;
  secret: string;
  models: readonly string[] | undefined;
  change: Change;
};

/** Runs a change of a key. @param done the confirmation, such as "Key revoked." */
export const useKeyChange = (ask: () => Promise<Change>, done: string, onDone: () => void) =>
  useChange(ask, { done, invalidates: [keysQuery.queryKey], onDone });

/**
 * Runs a change that returns a secret, and passes it on without keeping it.
 * @param show opens the secret dialog; the event is announced when that closes.
 */
export function useSecretMutation(
  ask: () => Promise<CreatedKey>,
  more: Omit<NewSecret, 'id' | 'secret' | 'change'>,
  show: (made: NewSecret) => void,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (): Promise<void> => {
      const { id, secret, event } = await ask();
      show({ ...more, id, secret, change: { event } });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
}

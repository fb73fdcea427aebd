import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change, CreatedKey } from '#server/contract/keys.ts';
import { keysQuery } from '../../lib/names.ts';
import { useChange } from '../../ui/use-change.ts';

/** How the page's dialogs change keys. */

/**
 * A secret, as long as it is on the screen. It is never put where it would outlive that: no query and no
 * mutation keeps it.
 */
export type Made = {
  why: 'created' | 'rotated' | 'leaked';
  id: string;
  name: string;
  secret: string;
  models: readonly string[] | undefined;
  change: Change;
};

/** Carries out a change of keys. @param done what to say of it: "The key is revoked." */
export const useKeyChange = (ask: () => Promise<Change>, done: string, onDone: () => void) =>
  useChange(ask, { done, altered: [keysQuery.queryKey], onDone });

/**
 * What makes a secret: it goes to whoever shows it, and nothing of it stays here.
 * @param show is told of it; the event is told of when it closes.
 */
export function useSecretMaking(
  ask: () => Promise<CreatedKey>,
  more: Omit<Made, 'id' | 'secret' | 'change'>,
  show: (made: Made) => void,
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

import { useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change, KeyMade } from '#server/dashboard/contract-keys.ts';
import { keysQuery } from '../../lib/names.ts';
import { announceChange } from '../../ui/change.tsx';

/** How the page's dialogs change keys. */

/** A secret, as long as it is on the screen. It is never put where it would outlive that: no query and no mutation keeps it. */
export type Made = { why: 'created' | 'rotated' | 'leaked'; id: string; name: string; secret: string; models: readonly string[] | undefined; change: Change };

/**
 * Carries out a change, tells of its event, and has the keys fetched anew.
 * @param done what to say of it: "The key is revoked."
 */
export function useKeyChange<Input>(ask: (input: Input) => Promise<Change>, done: string, onDone: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ask,
    onSuccess: (change) => {
      void queries.invalidateQueries({ queryKey: keysQuery.queryKey });
      announceChange(done, change);
      onDone();
    },
  });
}

/**
 * The same for what makes a secret: it goes to whoever shows it, and nothing of it stays here.
 * @param show is told of it; the event is told of when it closes.
 */
export function useSecretMaking<Input>(ask: (input: Input) => Promise<KeyMade>, more: Omit<Made, 'id' | 'secret' | 'change'>, show: (made: Made) => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (input: Input): Promise<void> => {
      const { id, secret, event } = await ask(input);
      show({ ...more, id, secret, change: { event } });
    },
    onSettled: () => queries.invalidateQueries({ queryKey: keysQuery.queryKey }),
  });
}

import { useMutation, type UseMutationResult, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/dashboard/contract-keys.ts';
import { accountsQuery } from '../../lib/names.ts';
import { plansQuery } from '../../lib/plans.ts';
import { announceChange } from '../../ui/change.tsx';

/** A change to an account: told by its event, and all that shows accounts is fetched anew. */
export function useAccountChange(change: () => Promise<Change>, done: string, onDone: () => void): UseMutationResult<Change, Error, void> {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: async (made) => {
      announceChange(done, made);
      onDone();
      await Promise.all([accountsQuery, plansQuery].map(({ queryKey }) => queries.invalidateQueries({ queryKey })));
    },
  });
}

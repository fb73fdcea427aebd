import { useMutation, type UseMutationResult, useQueryClient } from '@tanstack/react-query';
import type { AccountRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import { accountsQuery } from '../../lib/names.ts';
import { plansQuery } from '../../lib/plans.ts';

/** What was changed, in words, and the event that tells of it. */
export type Done = { done: string; change: Change };

/** What every step of the dialog is given. */
export type StepProps = {
  account: AccountRow;
  /** Without having done anything. */ onBack: () => void;
  onDone: (done: Done) => void;
};

/** A change to an account. All that shows accounts is fetched anew. */
export function useAccountChange(
  change: () => Promise<Change>,
  done: string,
  onDone: StepProps['onDone'],
): UseMutationResult<Change, Error, void> {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: async (made) => {
      onDone({ done, change: made });
      await Promise.all(
        [accountsQuery, plansQuery].map(({ queryKey }) => queries.invalidateQueries({ queryKey })),
      );
    },
  });
}

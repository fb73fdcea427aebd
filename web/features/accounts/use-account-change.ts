import { useMutation, type UseMutationResult, useQueryClient } from '@tanstack/react-query';
import type { AccountRow } from '#server/contract/accounts.ts';
import type { Change } from '#server/contract/keys.ts';
import { accountsQuery } from '../../lib/api/names.ts';
import { plansQuery } from '../../lib/api/queries.ts';

/** A description of the change and the event it appended. */
export type Done = { done: string; change: Change };

/** Props of every step of the account dialog. */
export type StepProps = {
  account: AccountRow;
  /** Called without a change. */ onBack: () => void;
  onDone: (done: Done) => void;
};

/** Runs a change of an account and refetches account and plan queries. */
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

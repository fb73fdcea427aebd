import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import { announceChange } from './change.tsx';

type ChangeOptions<Made> = {
  /** What to say of it: "The key is revoked." */
  done: string | ((made: Made) => string);
  altered: readonly QueryKey[];
  onDone: (made: Made) => void;
};

/** Carries out a change, tells of its event, and has what it altered fetched anew. */
export function useChange<Made extends Change, Input = void>(
  ask: (input: Input) => Promise<Made>,
  { done, altered, onDone }: ChangeOptions<Made>,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ask,
    onSuccess: (made) => {
      for (const queryKey of altered) void queries.invalidateQueries({ queryKey });
      announceChange(typeof done === 'string' ? done : done(made), made);
      onDone(made);
    },
  });
}

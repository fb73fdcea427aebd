import { type QueryKey, useMutation, useQueryClient } from '@tanstack/react-query';
import type { Change } from '#server/contract/keys.ts';
import { announceChange } from './change.tsx';

type ChangeOptions<Made> = {
  /** The confirmation, such as "Key revoked." */
  done: string | ((made: Made) => string);
  invalidates: readonly QueryKey[];
  onDone: (made: Made) => void;
};

/** Carries out a change, announces its event, and refetches affected queries. */
export function useChange<Made extends Change, Input = void>(
  ask: (input: Input) => Promise<Made>,
  { done, invalidates, onDone }: ChangeOptions<Made>,
) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ask,
    onSuccess: (made) => {
      for (const queryKey of invalidates) void queries.invalidateQueries({ queryKey });
      announceChange(typeof done === 'string' ? done : done(made), made);
      onDone(made);
    },
  });
}

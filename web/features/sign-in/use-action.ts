import { useState } from 'react';

/**
 * A minimal mutation hook, so that the sign-in pages don't load the query library. Arguments are not stored.
 */
export type Action<Given, Result> = {
  run: (given: Given) => void;
  /** The last successful result. */
  result: Result | undefined;
  error: unknown;
  isPending: boolean;
};

export function useAction<Given, Result>(act: (given: Given) => Promise<Result>): Action<Given, Result> {
  const [state, setState] = useState<Omit<Action<Given, Result>, 'run'>>({
    result: undefined,
    error: null,
    isPending: false,
  });
  const run = (given: Given): void => {
    setState({ result: undefined, error: null, isPending: true });
    act(given).then(
      (result) => setState({ result, error: null, isPending: false }),
      (error: unknown) => setState({ result: undefined, error, isPending: false }),
    );
  };
  return { run, ...state };
}

import { useState } from 'react';

/**
 * Something that is done once it is asked for, and how it goes. The pages inside have a library for
 * this; whoever only signs in need not wait for it. What it is given is kept nowhere.
 */
export type Action<Given, Result> = {
  run: (given: Given) => void;
  /** What it brought when it last went well. */
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

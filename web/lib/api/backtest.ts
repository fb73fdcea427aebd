import { useEffect, useRef, useState } from 'react';
import type { PriceTerms } from '#db/pricing/parts.ts';
import type { BacktestReport, BacktestStep, StartBacktest } from '#server/contract/backtest.ts';
import { ApiError, noReply } from './api.ts';
import { readObjects } from './ndjson.ts';

/** What a back-test changes. */
export type BacktestChanges = {
  plan?: StartBacktest['plan'];
  /** `plan`: what this plan's accounts are charged. */
  prices?: readonly (PriceTerms & { model: string; plan?: string })[];
};

type State =
  | { state: 'idle' }
  | { state: 'running'; done: number; of: number }
  | { state: 'reported'; report: BacktestReport; endedAt: string }
  | { state: 'failed'; error: unknown };

/** Runs a back-test, and cancels it when its component is left. */
export function useBacktest(): State & {
  run: (changes: BacktestChanges, refresh: boolean) => void;
  cancel: () => void;
} {
  const [state, setState] = useState<State>({ state: 'idle' });
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);

  const run = async (changes: BacktestChanges, refresh: boolean): Promise<void> => {
    const leave = new AbortController();
    running.current = leave;
    setState({ state: 'running', done: 0, of: 0 });
    try {
      const reply = await fetch('/api/v1/backtests', {
        method: 'POST',
        credentials: 'same-origin',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ ...changes, refresh }),
        signal: leave.signal,
      });
      let end: State | null = null;
      for await (const step of readObjects<BacktestStep>(reply)) {
        if ('done' in step) setState({ state: 'running', ...step });
        else if ('report' in step) end = { state: 'reported', report: step.report, endedAt: step.ended_at };
        else end = { state: 'failed', error: new BacktestFailure(step.failure) };
      }
      if (end === null) throw noReply('GET');
      setState(end);
    } catch (error) {
      if (leave.signal.aborted) setState({ state: 'idle' });
      else setState({ state: 'failed', error: error instanceof ApiError ? error : noReply('GET') });
    }
  };
  return {
    ...state,
    run: (changes, refresh) => void run(changes, refresh),
    cancel: () => running.current?.abort(),
  };
}

/** A back-test that began and has no result; the message is for people. */
export class BacktestFailure extends Error {
  override name = 'BacktestFailure';
}

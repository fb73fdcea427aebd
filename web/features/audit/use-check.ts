import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { CheckResult, CheckLine } from '#server/contract/audit.ts';
import { ApiError, noReply } from '../../lib/api/api.ts';
import { readObjects } from '../../lib/api/ndjson.ts';
import { checksQuery } from './proof-queries.ts';

type State = { what: string | null; done: number; of: number; result: CheckResult | null; error: unknown };
const IDLE: State = { what: null, done: 0, of: 0, result: null, error: null };

/** Runs a check and cancels it when the page is left. */
export function useCheck(): State & { run: (what: string) => void; cancel: () => void } {
  const [state, setState] = useState(IDLE);
  const queries = useQueryClient();
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);

  const run = async (what: string): Promise<void> => {
    const leave = new AbortController();
    running.current = leave;
    setState({ ...IDLE, what });
    try {
      let result: CheckResult | null = null;
      const reply = fetch('/api/v1/audit/checks', {
        method: 'POST',
        credentials: 'same-origin',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ target: what }),
        signal: leave.signal,
      });
      for await (const line of readObjects<CheckLine>(await reply)) {
        if ('result' in line) ({ result } = line);
        else setState((before) => ({ ...before, ...line }));
      }
      if (result === null) throw noReply('GET');
      setState({ ...IDLE, result });
    } catch (error) {
      setState({
        ...IDLE,
        error: leave.signal.aborted ? null : error instanceof ApiError ? error : noReply('GET'),
      });
    } finally {
      await queries.invalidateQueries({ queryKey: checksQuery.queryKey });
    }
  };
  return { ...state, run: (what) => void run(what), cancel: () => running.current?.abort() };
}

import { useQueryClient } from '@tanstack/react-query';
import { useEffect, useRef, useState } from 'react';
import type { ReconciliationLine } from '#server/contract/reconciliations.ts';
import { ApiError, noReply } from '../../lib/api/api.ts';
import { readObjects } from '../../lib/api/ndjson.ts';
import { reconciliationsQuery } from './queries.ts';

type Result = Extract<ReconciliationLine, { result: unknown }>['result'];
type State = { isRunning: boolean; done: number; of: number; error: unknown };
const IDLE: State = { isRunning: false, done: 0, of: 0, error: null };

/** Runs a comparison or corrections, and cancels them when the component is unmounted. */
export function useTask(
  path: string,
  onDone: (result: Result) => void,
): State & { run: (body: object) => void; cancel: () => void } {
  const [state, setState] = useState(IDLE);
  const queries = useQueryClient();
  const running = useRef<AbortController>(null);
  useEffect(() => () => running.current?.abort(), []);

  const run = async (body: object): Promise<void> => {
    const leave = new AbortController();
    running.current = leave;
    setState({ ...IDLE, isRunning: true });
    try {
      const reply = fetch(path, {
        method: 'POST',
        credentials: 'same-origin',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
        signal: leave.signal,
      });
      let result: Result | null = null;
      for await (const line of readObjects<ReconciliationLine>(await reply)) {
        if ('error' in line) throw new ApiError(line.error, { status: 0, code: 'reconciliation_failed' });
        if ('result' in line) ({ result } = line);
        else setState((before) => ({ ...before, ...line }));
      }
      if (result === null) throw noReply('POST');
      setState(IDLE);
      onDone(result);
    } catch (error) {
      setState({
        ...IDLE,
        error: leave.signal.aborted ? null : error instanceof ApiError ? error : noReply('POST'),
      });
    } finally {
      await queries.invalidateQueries({ queryKey: reconciliationsQuery.queryKey });
    }
  };
  return { ...state, run: (body) => void run(body), cancel: () => running.current?.abort() };
}

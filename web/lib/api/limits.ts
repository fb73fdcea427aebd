import { queryOptions, useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { LimitList } from '#server/contract/limits.ts';
import { api, queryString } from './api.ts';
import { useFrames } from '../feed/use-feed.ts';

/** The effective limits of an account and its keys. */
export const limitsQuery = (account: string) =>
  queryOptions({
    queryKey: ['limits', account],
    queryFn: ({ signal }) =>
      api<LimitList>('GET', `/api/limits${queryString({ account })}`, undefined, signal),
  });

/** Events that may change the effective limits. */
const KINDS = /^(plan|account|key|usage)\./;
/** The minimum interval between refetches. */
const AGAIN_AFTER_MS = 2_000;

/**
 * Limits with usage, as enforced. The open live feed triggers refetches; its own quota frames are derived
 * from the log and lag behind.
 */
export function useLimits(account: string): UseQueryResult<LimitList> {
  const queries = useQueryClient();
  const options = limitsQuery(account);
  const query = useQuery(options);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const { refetch } = query;
  useFrames((frames) => {
    const isOther = frames.some(
      (frame) => frame.type === 'gap' || (frame.type === 'notice' && KINDS.test(frame.kind)),
    );
    if (isOther) void queries.invalidateQueries(options);
    const hasMoved = frames.some(
      (frame) =>
        (frame.type === 'started' || frame.type === 'settled' || frame.type === 'quota') &&
        frame.account === account,
    );
    if (!hasMoved) return;
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      void refetch();
    }, AGAIN_AFTER_MS);
  });
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [],
  );
  return query;
}

import { queryOptions, useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { LimitList } from '#server/contract/limits.ts';
import { api, queryString } from './api.ts';
import { useFrames } from './use-feed.ts';

/** Every limit in force of an account and its keys. */
const limitsQuery = (account: string) =>
  queryOptions({
    queryKey: ['limits', account],
    queryFn: ({ signal }) =>
      api<LimitList>('GET', `/api/limits${queryString({ account })}`, undefined, signal),
  });

/** What may change which limits are in force. */
const KINDS = /^(plan|account|key)\./;
/** Calls begin and end all the time: how limits stand is asked no more often than this. */
const AGAIN_AFTER_MS = 2_000;

/**
 * The limits as what enforces them tells them. The live feed, which the page has open, says when to
 * ask again: what it tells of quotas itself comes from the log, and later.
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

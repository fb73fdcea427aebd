import { queryOptions, useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { LimitList } from '#server/dashboard/contract-keys.ts';
import { api, queryString } from './api.ts';
import { withQuotas } from './limit-rows.ts';
import { useFrames } from './use-feed.ts';

/** Every limit in force of an account and its keys. @param account undefined: the own. */
const limitsQuery = (account: string | undefined) =>
  queryOptions({
    queryKey: ['limits', account ?? null],
    queryFn: ({ signal }) => api<LimitList>('GET', `/api/limits${queryString({ account })}`, undefined, signal),
  });

/** What may change which limits are in force. */
const KINDS = /^(plan|account|key)\./;
/** Running calls begin and end all the time: how many there are is asked no more often than this. */
const AGAIN_AFTER_MS = 2_000;

/** The limits, kept up to date by the live feed, which the page has open. */
export function useLimits(account: string | undefined): UseQueryResult<LimitList> {
  const queries = useQueryClient();
  const options = limitsQuery(account);
  const query = useQuery(options);
  useFrames((frames) => {
    const quotas = frames.filter((frame) => frame.type === 'quota');
    if (quotas.length > 0) queries.setQueryData(options.queryKey, (list) => list && { ...list, data: withQuotas(list.data, quotas) }, { updatedAt: query.dataUpdatedAt });
    const isOther = frames.some((frame) => frame.type === 'gap' || (frame.type === 'notice' && KINDS.test(frame.kind)));
    if (isOther) void queries.invalidateQueries(options);
  });
  return query;
}

/** For pages that show how many calls run: has the limits read anew after calls began or ended. */
export function useRunningLimits({ data, refetch }: UseQueryResult<LimitList>): void {
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const isCounted = data?.data.some(({ meter }) => meter === 'concurrent') ?? false;
  useFrames((frames) => {
    const hasMoved = frames.some(({ type }) => type === 'started' || type === 'settled');
    if (!hasMoved || !isCounted || timer.current !== undefined) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      void refetch();
    }, AGAIN_AFTER_MS);
  });
  useEffect(() => () => clearTimeout(timer.current), []);
}

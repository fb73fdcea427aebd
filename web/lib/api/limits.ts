import { queryOptions, useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { useEffect, useRef } from 'react';
import type { ForecastList, ForecastRow, LimitList, LimitRow } from '#server/contract/limits.ts';
import { api, queryString } from './api.ts';
import { useFrames } from '../feed/use-feed.ts';
import { mayHaveChanged } from '../feed/use-notices.ts';

/** The effective limits of an account and its keys. */
export const limitsQuery = (account: string) =>
  queryOptions({
    queryKey: ['limits', account],
    queryFn: ({ signal }) =>
      api<LimitList>('GET', `/api/v1/limits${queryString({ account })}`, undefined, signal),
    // Frames renew them only while a page shows them.
    staleTime: 0,
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
    if (mayHaveChanged(frames, (kind) => KINDS.test(kind))) void queries.invalidateQueries(options);
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

/** Forecasts change slowly, and read some weeks of usage. */
const FORECAST_MS = 5 * 60_000;

/** Finds the forecast of a limit of an account or one of its keys. */
export function useForecasts(
  account: string,
): (limit: Pick<LimitRow, 'subject' | 'meter' | 'window'>) => ForecastRow | undefined {
  const { data } = useQuery({
    queryKey: ['forecasts', account],
    queryFn: ({ signal }) =>
      api<ForecastList>('GET', `/api/v1/limits/forecasts${queryString({ account })}`, undefined, signal),
    staleTime: FORECAST_MS,
    refetchInterval: FORECAST_MS,
  });
  return ({ subject, meter, window }) =>
    data?.data.find((row) => row.subject === subject && row.meter === meter && row.window === window);
}

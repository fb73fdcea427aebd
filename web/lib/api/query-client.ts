import { type InvalidateOptions, type InvalidateQueryFilters, QueryClient } from '@tanstack/react-query';
import { ApiError } from './api.ts';

const RETRIES_MAX = 3;

/**
 * Refetches invalidated queries also if their first fetch is under way: the library would reuse it, though
 * its answer may be from before the change, and nothing would renew that afterwards.
 */
class InvalidatingClient extends QueryClient {
  override async invalidateQueries(
    filters?: InvalidateQueryFilters,
    options: InvalidateOptions = {},
  ): Promise<void> {
    const running = { ...filters, fetchStatus: 'fetching' } as const;
    const first = this.getQueryCache()
      .findAll(running)
      .filter(({ state }) => state.data === undefined);
    if (options.cancelRefetch !== false) await Promise.allSettled(first.map(async ({ promise }) => promise));
    return super.invalidateQueries(filters, options);
  }
}

/** The query cache. Queries are authoritative; the live feed only updates them. */
export const queryClient = new InvalidatingClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      // Retries only missing responses and server errors.
      retry: (count, error) =>
        count < RETRIES_MAX &&
        error instanceof ApiError &&
        error.code !== 'query_timeout' &&
        (error.status === 0 || error.status >= 500),
      retryDelay: (count, error) =>
        error instanceof ApiError && error.retryAfterS !== null
          ? error.retryAfterS * 1_000
          : Math.min(5_000, 300 * 2 ** count),
    },
    mutations: { retry: false },
  },
});

import { QueryClient } from '@tanstack/react-query';
import { ApiError } from './api.ts';

const RETRIES_MAX = 3;

/** The query cache. Queries are authoritative; the live feed only updates them. */
export const queryClient = new QueryClient({
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

import { QueryClient } from '@tanstack/react-query';
import { ApiError } from './api.ts';

const RETRIES_MAX = 3;

/** The figures of the page. They are the truth; the live feed only brings them on. */
export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 15_000,
      // Only what may fare better: no reply, or a fault of the server's that passes.
      retry: (count, error) =>
        count < RETRIES_MAX &&
        error instanceof ApiError &&
        error.code !== 'report_too_slow' &&
        (error.status === 0 || error.status >= 500),
      retryDelay: (count, error) =>
        error instanceof ApiError && error.retryAfterS !== null
          ? error.retryAfterS * 1_000
          : Math.min(5_000, 300 * 2 ** count),
    },
    mutations: { retry: false },
  },
});

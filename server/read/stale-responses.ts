import { ApiError } from '#server/errors/api-error.ts';

/**
 * What the dashboard answers from what it has in memory, or would, while nobody can tell whether it is still
 * so.
 */

/** @param what in the plural, such as `keys`. */
export function unavailable(what: string): ApiError {
  return new ApiError('store_unavailable', {
    message: `What ${what} are right now can't be told: the log can't be read. Try again.`,
  });
}

export const LIMITS_UNAVAILABLE = new ApiError('store_unavailable', {
  message: "How limits stand right now can't be told: the database can't be reached. Try again.",
});

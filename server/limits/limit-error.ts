import type { WindowKind } from '#db/limits/limits.ts';
import { METERS } from '#db/limits/meters.ts';
import { whoseOf } from '#db/limits/subjects.ts';
import { ApiError, type ErrorCode } from '#server/errors/api-error.ts';
import type { Counter } from '#server/limits/counter.ts';
import type { Shortage } from '#server/limits/waiting-call.ts';
import { figuresOf, rateHeaders, resetMs } from '#server/limits/figures.ts';

/** Clients ignore a longer `Retry-After`, or hang for its whole length; measured on six of them. */
const RETRY_AFTER_MAX_MS = 60_000;

/**
 * The API error for a call that was not admitted. Pure.
 * @param account of the call.
 */
export function limitErrorOf(shortage: Shortage, nowMs: number, account?: string): ApiError {
  switch (shortage.kind) {
    case 'unavailable':
      return new ApiError('store_unavailable');
    case 'undecided':
      return new ApiError('limit_unavailable');
    case 'short':
      return shortOf(shortage.counter, shortage.minimum, nowMs, account);
  }
}

/** The code of the error of a call that a limit of this window was short for. */
export const limitCode = (window: WindowKind): ErrorCode =>
  window === 'none' || window === 'minute' ? 'rate_limit_exceeded' : 'insufficient_quota';

function shortOf(counter: Counter, minimum: number, nowMs: number, account: string | undefined): ApiError {
  const limit = figuresOf(counter, account);
  const whose = limit.scope === 'parent_account' ? "The parent account's" : whoseOf(limit.scope);
  const units = METERS[counter.meter].units[1];
  const isLifetime = counter.window === 'lifetime';
  const per = isLifetime ? `${units} in its lifetime` : `${units} per ${counter.window}`;
  const headers = rateHeaders([counter], nowMs);
  // Waiting would not help a call that is larger than the whole limit.
  const tooLarge = minimum > counter.cap && counter.cap > 0;
  const waitMs = resetMs(counter, nowMs);
  if (counter.window === 'none') {
    const message =
      `${whose} limit of ${counter.cap} ${METERS[counter.meter].name} is reached: ` +
      `${limit.reserved} are running. Wait for one to end.`;
    return new ApiError(limitCode(counter.window), {
      message,
      limit,
      headers,
      ...(counter.cap === 0 ? { shouldRetry: false } : {}),
    });
  }
  if (counter.window === 'minute') {
    const message = tooLarge
      ? `${whose} limit of ${counter.cap} ${per} is below the ${minimum} that this request needs. ` +
        'Send a smaller request, or ask the administrator for a higher limit.'
      : `${whose} limit of ${counter.cap} ${per} is reached. ` +
        `Retry in ${Math.ceil((waitMs ?? 0) / 1_000)} s.`;
    return new ApiError(limitCode(counter.window), {
      message,
      limit,
      headers,
      retryAfterMs: waitMs ?? 1_000,
      ...(tooLarge || counter.cap === 0 ? { shouldRetry: false } : {}),
    });
  }
  // The reset comes first: some clients show only the beginning of a message.
  const message = tooLarge
    ? `${whose} quota of ${counter.cap} ${per} is below the ${minimum} that this request may need. ` +
      'Send a smaller request, limit the reply with max_tokens, or ask the administrator for a larger quota.'
    : `Quota ${limit.remaining > 0 ? 'too low' : 'exceeded'}` +
      `${isLifetime ? ", and it doesn't reset" : ` until ${limit.resets_at}`}. ` +
      `${whose} quota is ${counter.cap} ${per}: ${limit.used} used, ` +
      `${limit.reserved} reserved by running requests, ${limit.remaining} free; ` +
      `this request needs ${minimum}. ` +
      `${isLifetime ? 'Ask' : 'Wait for the reset, or ask'} the administrator for a larger quota.`;
  const isSoon = waitMs !== null && waitMs <= RETRY_AFTER_MAX_MS && !tooLarge;
  return new ApiError(limitCode(counter.window), {
    message,
    limit,
    headers: limit.resets_at === null ? headers : [...headers, 'x-quota-reset', limit.resets_at],
    shouldRetry: false,
    resetMs: waitMs ?? undefined,
    ...(isSoon ? { retryAfterMs: waitMs } : {}),
  });
}

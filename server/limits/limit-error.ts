import { METERS } from '#db/limits/meters.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Counter } from '#server/limits/counter.ts';
import type { Shortage } from '#server/limits/admission-controller.ts';
import { figuresOf, rateHeaders, resetMs } from '#server/limits/figures.ts';

/** Clients take a longer `Retry-After` at its word and hang, or ignore it; measured on six of them. */
const RETRY_AFTER_MAX_MS = 60_000;

/** What a caller is told who was not admitted, with what to do about it. Pure. */
export function limitErrorOf(shortage: Shortage, nowMs: number): ApiError {
  switch (shortage.kind) {
    case 'unavailable':
      return new ApiError('store_unavailable');
    case 'undecided':
      return new ApiError('limit_undecided');
    case 'short':
      return shortOf(shortage.counter, shortage.minimum, nowMs);
  }
}

function shortOf(counter: Counter, minimum: number, nowMs: number): ApiError {
  const limit = figuresOf(counter);
  const whose = `the ${limit.scope}'s`;
  const units = METERS[counter.meter].units[1];
  const headers = rateHeaders([counter], nowMs);
  // Waiting would not help a call that is larger than the whole limit.
  const tooLarge = minimum > counter.cap && counter.cap > 0;
  const waitMs = resetMs(counter, nowMs);
  if (counter.meter === 'concurrent') {
    const message = `${limit.reserved} requests are running, and ${whose} limit is ${counter.cap} at the same time. Wait for one to end.`;
    return new ApiError('rate_limit_exceeded', {
      message,
      limit,
      headers,
      ...(counter.cap === 0 ? { shouldRetry: false } : {}),
    });
  }
  if (counter.window === 'minute') {
    const message = tooLarge
      ? `This call needs about ${minimum} ${units}, more than ${whose} limit of ${counter.cap} ${units} a minute allows at all. Send less, or ask for a higher limit.`
      : `The limit of ${counter.cap} ${units} a minute (${whose}) is reached. Wait ${Math.ceil((waitMs ?? 0) / 1_000)} s and try again.`;
    return new ApiError('rate_limit_exceeded', {
      message,
      limit,
      headers,
      retryAfterMs: waitMs ?? 1_000,
      ...(tooLarge || counter.cap === 0 ? { shouldRetry: false } : {}),
    });
  }
  // The time comes first: some clients show no more than the beginning.
  const state = `${counter.cap} ${units} a ${counter.window}, of which ${limit.used} are used, ${limit.reserved} held by running calls and ${limit.remaining} free`;
  const message = tooLarge
    ? `This call may need ${minimum} ${units}, and ${whose} whole quota is ${counter.cap} a ${counter.window}. Send less, limit the reply with max_tokens, or ask for a larger quota.`
    : `Quota ${limit.remaining > 0 ? 'too low' : 'spent'} until ${limit.resets_at}: ${whose} limit is ${state}; this call needs ${minimum}. ` +
      "Wait for the next window, or ask the relay's administrator for a larger quota.";
  const isSoon = waitMs !== null && waitMs <= RETRY_AFTER_MAX_MS && !tooLarge;
  return new ApiError('insufficient_quota', {
    message,
    limit,
    headers: [...headers, 'x-quota-reset', limit.resets_at ?? ''],
    shouldRetry: false,
    ...(isSoon ? { retryAfterMs: waitMs } : {}),
  });
}

import type { EndReason } from '#db/events/endings.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { BUSY_CREDENTIAL_MS, RETRY_AFTER_MAX_MS, WRONG_CREDENTIAL_MS } from '#server/upstreams/bounds.ts';

/** An attempt that failed before the client received anything: the retry policy for it. Pure. */

/**
 * `unsupported`: the request has no form in the upstream's protocol. `reply_begun`: the reply had begun, and
 * the upstream may charge for it. `reference_not_found`: the request refers to stored content that this
 * upstream or credential does not have. A number: the status of the upstream's error reply.
 */
export type FailureCause =
  | 'unreachable'
  | 'timed_out'
  | 'cut'
  | 'unreadable'
  | 'error_event'
  | 'unsupported'
  | 'reply_begun'
  | 'reference_not_found'
  | number;

export type AttemptFailure = {
  /** The error for the client, where no other upstream takes over. */
  error: ApiError;
  reason: EndReason;
  cause: FailureCause;
  /** The upstream's `Retry-After`, in milliseconds. */
  retryAfterMs: number | null;
};

export type RetryPolicy = {
  /** Whether another upstream, or another credential, may succeed. */
  retryElsewhere: boolean;
  /** Whether a retry at the same upstream may succeed after a pause. */
  retrySame: boolean;
  /** Whose circuit breaker counts the failure; null: none. */
  blames: 'upstream' | 'credential' | null;
  /** Whether the failure is the upstream's, so that its other credentials would fail, too. */
  avoidUpstream: boolean;
  /** How long its circuit opens for; null: as its consecutive failures suggest. */
  openForMs: number | null;
};

const NO_RETRY: RetryPolicy = {
  retryElsewhere: false,
  retrySame: false,
  blames: null,
  avoidUpstream: true,
  openForMs: null,
};
const ELSEWHERE: RetryPolicy = { ...NO_RETRY, retryElsewhere: true };
const UPSTREAM: RetryPolicy = {
  retryElsewhere: true,
  retrySame: true,
  blames: 'upstream',
  avoidUpstream: true,
  openForMs: null,
};

/** The upstream rejects the client's own request: the next one would do the same. */
const REQUEST_STATUSES = new Set([400, 413, 415, 422]);
/** The upstream rejects the relay's credential: unknown, unpaid or without permission. */
const CREDENTIAL_STATUSES = new Set([401, 402, 403]);

export function classifyFailure({
  cause,
  retryAfterMs,
}: Pick<AttemptFailure, 'cause' | 'retryAfterMs'>): RetryPolicy {
  switch (cause) {
    case 'reply_begun':
      return { ...UPSTREAM, retryElsewhere: false, retrySame: false };
    case 'unsupported':
      return ELSEWHERE;
    case 'reference_not_found':
      return { ...ELSEWHERE, avoidUpstream: false };
    case 'unreachable':
    case 'timed_out':
    case 'cut':
    case 'unreadable':
    case 'error_event':
      return UPSTREAM;
    default:
  }
  const openForMs = retryAfterMs === null ? null : Math.min(retryAfterMs, RETRY_AFTER_MAX_MS);
  if (REQUEST_STATUSES.has(cause)) return NO_RETRY;
  // The upstream doesn't have the model, or not by this name.
  if (cause === 404) return ELSEWHERE;
  if (CREDENTIAL_STATUSES.has(cause)) {
    return {
      retryElsewhere: true,
      retrySame: false,
      blames: 'credential',
      avoidUpstream: false,
      openForMs: WRONG_CREDENTIAL_MS,
    };
  }
  if (cause === 429) {
    return {
      retryElsewhere: true,
      retrySame: true,
      blames: 'credential',
      avoidUpstream: false,
      openForMs: openForMs ?? BUSY_CREDENTIAL_MS,
    };
  }
  if (cause >= 500 || cause === 408 || cause === 425 || cause < 400) return { ...UPSTREAM, openForMs };
  return NO_RETRY;
}

/** The cause as a word, for the log. */
export const causeCode = (cause: FailureCause): string =>
  typeof cause === 'number' ? `status_${cause}` : cause;

import type { EndReason } from '#db/events/events.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { BUSY_CREDENTIAL_MS, RETRY_AFTER_MAX_MS, WRONG_CREDENTIAL_MS } from '#server/upstreams/bounds.ts';

/** A try that failed before the client was told anything: what may follow from it. Pure. */

/**
 * `not_said`: the call can't be said in the upstream's protocol. `begun`: its reply had begun, and the
 * upstream may charge for it.
 */
export type FailureCause =
  'unreachable' | 'timed_out' | 'cut' | 'unreadable' | 'error_event' | 'not_said' | 'begun' | number;

export type AttemptFailure = {
  /** What the client is told where nobody else takes over. */
  refusal: ApiError;
  reason: EndReason;
  /** A number is the status that the upstream refused with. */
  cause: FailureCause;
  /** How long the upstream asked to be left alone, in milliseconds. */
  retryAfterMs: number | null;
};

export type RetryPolicy = {
  /** Whether another upstream, or another credential, may do better. */
  retryElsewhere: boolean;
  /** Whether the same may do better a little later. */
  retrySame: boolean;
  /** Whose health it speaks against. */
  blames: 'upstream' | 'credential' | 'nobody';
  /** Whether another credential of the same upstream is of no use. */
  avoidUpstream: boolean;
  /** For how long that one is known to be of no use; null: nobody knows. */
  openForMs: number | null;
};

const HOPELESS: RetryPolicy = {
  retryElsewhere: false,
  retrySame: false,
  blames: 'nobody',
  avoidUpstream: true,
  openForMs: null,
};
const ELSEWHERE: RetryPolicy = { ...HOPELESS, retryElsewhere: true };
const UPSTREAM: RetryPolicy = {
  retryElsewhere: true,
  retrySame: true,
  blames: 'upstream',
  avoidUpstream: true,
  openForMs: null,
};

/** Statuses by which an upstream judges the client's own request: the next one would say the same. */
const OF_THE_REQUEST = new Set([400, 413, 415, 422]);
/** Of the relay's credential: not known, not paid for, not permitted. */
const OF_THE_CREDENTIAL = new Set([401, 402, 403]);

export function classifyFailure({
  cause: problem,
  retryAfterMs,
}: Pick<AttemptFailure, 'cause' | 'retryAfterMs'>): RetryPolicy {
  switch (problem) {
    case 'begun':
      return { ...UPSTREAM, retryElsewhere: false, retrySame: false };
    case 'not_said':
      return ELSEWHERE;
    case 'unreachable':
    case 'timed_out':
    case 'cut':
    case 'unreadable':
    case 'error_event':
      return UPSTREAM;
    default:
  }
  const askedMs = retryAfterMs === null ? null : Math.min(retryAfterMs, RETRY_AFTER_MAX_MS);
  if (OF_THE_REQUEST.has(problem)) return HOPELESS;
  // It does not have the model, or not under this name.
  if (problem === 404) return ELSEWHERE;
  if (OF_THE_CREDENTIAL.has(problem)) {
    return {
      retryElsewhere: true,
      retrySame: false,
      blames: 'credential',
      avoidUpstream: false,
      openForMs: WRONG_CREDENTIAL_MS,
    };
  }
  if (problem === 429) {
    return {
      retryElsewhere: true,
      retrySame: true,
      blames: 'credential',
      avoidUpstream: false,
      openForMs: askedMs ?? BUSY_CREDENTIAL_MS,
    };
  }
  if (problem >= 500 || problem === 408 || problem === 425 || problem < 400)
    return { ...UPSTREAM, openForMs: askedMs };
  return HOPELESS;
}

/** The same in a word, for the log. */
export const causeCode = (problem: FailureCause): string =>
  typeof problem === 'number' ? `status_${problem}` : problem;

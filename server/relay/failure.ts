import type { EndReason } from '#db/events/events.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { BUSY_CREDENTIAL_MS, RETRY_AFTER_MAX_MS, WRONG_CREDENTIAL_MS } from '#server/upstreams/bounds.ts';

/** A try that failed before the client was told anything: what may follow from it. Pure. */

/**
 * `not_said`: the call can't be said in the upstream's protocol. `begun`: its reply had begun, and the
 * upstream may charge for it.
 */
export type Problem =
  'unreachable' | 'timed_out' | 'cut' | 'unreadable' | 'error_event' | 'not_said' | 'begun' | number;

export type Failure = {
  /** What the client is told where nobody else takes over. */
  refusal: ApiError;
  reason: EndReason;
  /** A number is the status that the upstream refused with. */
  problem: Problem;
  /** How long the upstream asked to be left alone, in milliseconds. */
  retryAfterMs: number | null;
};

export type Verdict = {
  /** Whether another upstream, or another credential, may do better. */
  isElsewhereBetter: boolean;
  /** Whether the same may do better a little later. */
  isLaterBetter: boolean;
  /** Whose health it speaks against. */
  blames: 'upstream' | 'credential' | 'nobody';
  /** Whether another credential of the same upstream is of no use. */
  isOfUpstream: boolean;
  /** For how long that one is known to be of no use; null: nobody knows. */
  outForMs: number | null;
};

const HOPELESS: Verdict = {
  isElsewhereBetter: false,
  isLaterBetter: false,
  blames: 'nobody',
  isOfUpstream: true,
  outForMs: null,
};
const ELSEWHERE: Verdict = { ...HOPELESS, isElsewhereBetter: true };
const UPSTREAM: Verdict = {
  isElsewhereBetter: true,
  isLaterBetter: true,
  blames: 'upstream',
  isOfUpstream: true,
  outForMs: null,
};

/** Statuses by which an upstream judges the client's own request: the next one would say the same. */
const OF_THE_REQUEST = new Set([400, 413, 415, 422]);
/** Of the relay's credential: not known, not paid for, not permitted. */
const OF_THE_CREDENTIAL = new Set([401, 402, 403]);

export function judge({ problem, retryAfterMs }: Pick<Failure, 'problem' | 'retryAfterMs'>): Verdict {
  switch (problem) {
    case 'begun':
      return { ...UPSTREAM, isElsewhereBetter: false, isLaterBetter: false };
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
      isElsewhereBetter: true,
      isLaterBetter: false,
      blames: 'credential',
      isOfUpstream: false,
      outForMs: WRONG_CREDENTIAL_MS,
    };
  }
  if (problem === 429) {
    return {
      isElsewhereBetter: true,
      isLaterBetter: true,
      blames: 'credential',
      isOfUpstream: false,
      outForMs: askedMs ?? BUSY_CREDENTIAL_MS,
    };
  }
  if (problem >= 500 || problem === 408 || problem === 425 || problem < 400)
    return { ...UPSTREAM, outForMs: askedMs };
  return HOPELESS;
}

/** The same in a word, for the log. */
export const problemName = (problem: Problem): string =>
  typeof problem === 'number' ? `status_${problem}` : problem;

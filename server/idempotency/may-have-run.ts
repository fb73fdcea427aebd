import type { EndedAttempt } from '#server/relay/attempt-sequence.ts';
import type { ReplyUsage } from '#server/relay/reply-usage.ts';

/**
 * Outcomes of attempts after which no model has worked: the request did not reach the upstream, has no form
 * in the upstream's protocol, or was rejected with a status that says so.
 */
const UNSENT = new Set(['unreachable', 'timed_out', 'unsupported', 'reference_not_found']);
const REJECTED = /^status_(?:4\d\d|503|529)$/;
/** The upstream, or a proxy before it, gave up waiting: the model may have worked meanwhile. */
const AMBIGUOUS = new Set(['status_408', 'status_499']);

/**
 * Whether a model may have worked on a call that has ended: its idempotency key is not released then. A
 * failure without a reply counts as work where it is ambiguous, such as a broken connection or a 500.
 * @param end the usage that the call is charged. Pure.
 */
export function mayHaveRun(attempts: readonly EndedAttempt[], end: Pick<ReplyUsage, 'source'>): boolean {
  return attempts.some(({ attempt: { outcome }, consumed }) => {
    if ((consumed ?? end).source !== 'none') return true;
    const isRejected = REJECTED.test(outcome) && !AMBIGUOUS.has(outcome);
    return !isRejected && !UNSENT.has(outcome);
  });
}

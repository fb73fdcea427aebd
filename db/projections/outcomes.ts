import { END_REASONS, type EndReason } from '#db/events/events.ts';

/**
 * How calls end, in a few words that people group by. The one place that says which reason is which:
 * projections, replies and the dashboard ask here. Pure.
 */
export const ENDED_OUTCOMES = [
  'completed',
  'client_gone',
  'upstream_failed',
  'cut_short',
  'relay_failed',
] as const;
export type EndedOutcome = (typeof ENDED_OUTCOMES)[number];

/** The outcomes of accepted calls, and that of those that never were. */
export const OUTCOMES = [...ENDED_OUTCOMES, 'refused'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const OUTCOME_OF: Readonly<Record<EndReason, EndedOutcome>> = {
  completed: 'completed',
  client_gone: 'client_gone',
  upstream_disconnected: 'upstream_failed',
  upstream_error: 'upstream_failed',
  upstream_rejected: 'upstream_failed',
  upstream_unreachable: 'upstream_failed',
  timed_out: 'upstream_failed',
  // What the account's own terms ended.
  access_revoked: 'cut_short',
  quota_exceeded: 'cut_short',
  service_unavailable: 'relay_failed',
  internal_error: 'relay_failed',
  abandoned: 'relay_failed',
};

/** The codes of the reasons that an outcome sums up, as the log and `projection.request` have them. */
export function endReasonCodes(outcome: EndedOutcome): number[] {
  return Object.entries(END_REASONS).flatMap(([reason, code]) =>
    OUTCOME_OF[reason as EndReason] === outcome ? [code] : [],
  );
}

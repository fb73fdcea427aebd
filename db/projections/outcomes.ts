import { END_REASONS, type EndReason } from '#db/events/endings.ts';

/** The outcomes of calls: end reasons in groups, for projections, replies and the dashboard. Pure. */
export const ENDED_OUTCOMES = [
  'completed',
  'client_disconnected',
  'upstream_failed',
  'cut_short',
  'relay_failed',
] as const;
export type EndedOutcome = (typeof ENDED_OUTCOMES)[number];

/** The outcomes of accepted calls, and that of rejected ones. */
export const OUTCOMES = [...ENDED_OUTCOMES, 'refused'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const OUTCOME_OF: Readonly<Record<EndReason, EndedOutcome>> = {
  completed: 'completed',
  client_disconnected: 'client_disconnected',
  upstream_disconnected: 'upstream_failed',
  upstream_error: 'upstream_failed',
  upstream_rejected: 'upstream_failed',
  upstream_unreachable: 'upstream_failed',
  timed_out: 'upstream_failed',
  // Ended by the account's own terms.
  access_revoked: 'cut_short',
  quota_exceeded: 'cut_short',
  service_unavailable: 'relay_failed',
  internal_error: 'relay_failed',
  abandoned: 'relay_failed',
};

/** The codes of an outcome's end reasons in the log and in `projection.request`. */
export function endReasonCodes(outcome: EndedOutcome): number[] {
  return Object.entries(END_REASONS).flatMap(([reason, code]) =>
    OUTCOME_OF[reason as EndReason] === outcome ? [code] : [],
  );
}

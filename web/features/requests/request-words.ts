import type { RequestDetail, RequestEvent } from '#server/contract/requests.ts';
import type { ObservedRejection } from '#db/events/admission.ts';
import type { EndReason } from '#db/events/endings.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { showCost, showCount } from '../../lib/format/show.ts';

/** Texts of the request details. Pure. */

const END_WORDS: Record<EndReason, string> = {
  completed: 'The reply was delivered completely.',
  client_disconnected:
    'The client disconnected before the reply was complete. Usage up to that point was charged.',
  upstream_disconnected: 'The upstream disconnected before the reply was complete.',
  upstream_error: 'The upstream returned an error.',
  upstream_rejected: 'The upstream rejected the request.',
  upstream_unreachable: 'The upstream could not be reached.',
  timed_out: 'The upstream timed out.',
  service_unavailable: 'The relay was overloaded and ended the request.',
  abandoned: 'The server crashed. Usage was estimated, at most the reservation.',
  internal_error: 'The relay failed internally.',
  access_revoked: 'The key’s permissions changed while the request was running.',
  quota_exceeded: 'The reply reached a hard limit and was stopped.',
};

/** The same of a line of a batch, which no client waits for. */
const BATCH_END_WORDS: Partial<Record<EndReason, string>> = {
  completed: 'The output of the batch has the reply.',
  client_disconnected: 'The batch was cancelled before it had a reply.',
  upstream_error: 'The provider returned an error, or no output.',
  upstream_rejected: 'The provider rejected the line or the batch.',
  upstream_unreachable: 'The provider has not created the batch.',
  timed_out: 'The batch expired before it had a reply.',
  abandoned: 'The batch or its output is lost. The reservation was charged.',
};

/** The end of the request; null: it is running. */
export function endWords(detail: Pick<RequestDetail, 'events' | 'end_reason'>): string | null {
  const { end_reason: reason } = detail;
  if (reason === null) return null;
  return (batchOf(detail) === null ? null : BATCH_END_WORDS[reason]) ?? END_WORDS[reason];
}

/** The batch that the request is a line of; null for a call of its own. */
export function batchOf({ events }: Pick<RequestDetail, 'events'>): string | null {
  const batch = events.find(({ type }) => type === 'request.accepted')?.['batch'];
  return typeof batch === 'string' ? batch : null;
}

/** Describes an event of the request. */
export function describeEvent(event: RequestEvent, detail: RequestDetail): string {
  const reserved = (): string => {
    const tokens = numberOf(event['hold_tokens']);
    const cost = numberOf(event['hold_cost_nanousd']);
    return (
      [tokens === null ? '' : `${showCount(tokens)} tokens`, cost === null ? '' : `up to ${showCost(cost)}`]
        .filter((part) => part !== '')
        .join(', ') || 'nothing'
    );
  };
  switch (event.type) {
    case 'request.accepted':
      if (batchOf(detail) !== null) return `Recorded before its batch was created. Reserved ${reserved()}.`;
      return `Recorded before it was sent. Reserved ${reserved()}.`;
    case 'request.extended':
      return `Reservation extended to ${reserved()}.`;
    case 'request.settled':
      return endWords(detail) ?? 'Ended.';
    case 'request.abandoned':
      return endWords({ ...detail, end_reason: 'abandoned' }) ?? 'Ended.';
    case 'request.rejected': {
      const count = numberOf(event['rejected_count']) ?? 1;
      return count > 1
        ? `Rejected, with ${showCount(count - 1)} identical requests within a second.`
        : 'Rejected before it was sent upstream.';
    }
    default:
      return event.type;
  }
}

/** The attempts at upstreams, if there was more than one. */
export function attemptsOf({ events }: Pick<RequestDetail, 'events'>): Attempt[] {
  const attempts = events.find(({ type }) => type === 'request.settled')?.['attempts'];
  return Array.isArray(attempts) ? (attempts as Attempt[]) : [];
}

/** The observed limits that would have rejected it. */
export function observedOf({ events }: Pick<RequestDetail, 'events'>): ObservedRejection[] {
  const observed = events.find(({ type }) => type === 'request.accepted')?.['observed'];
  return Array.isArray(observed) ? (observed as ObservedRejection[]) : [];
}

const numberOf = (value: unknown): number | null => (typeof value === 'number' ? value : null);

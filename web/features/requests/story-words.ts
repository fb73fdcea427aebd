import type { RequestDetail, RequestEvent } from '#server/contract/requests.ts';
import type { EndReason, UsageSource } from '#db/events/events.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { showCost, showCount } from '../../lib/show.ts';

/** A request's story in words. Pure. */

export const END_WORDS: Record<EndReason, string> = {
  completed: 'The reply was delivered whole.',
  client_gone: 'The client left before the reply was complete. What was relayed until then was charged.',
  upstream_disconnected: 'The upstream ended the reply before it was complete.',
  upstream_error: 'The upstream failed.',
  upstream_rejected: 'The upstream refused the request.',
  upstream_unreachable: 'The upstream could not be reached.',
  timed_out: 'The upstream did not answer in time.',
  service_unavailable: 'The relay was too busy and ended it.',
  abandoned:
    'The server that ran it died. Nobody knows what it had relayed, so its whole hold stays charged.',
  internal_error: 'The relay failed.',
  access_revoked: 'What the key may do was changed while it ran, so it was ended.',
  quota_exceeded: 'The reply used up what was left of a hard quota, and was ended there.',
};

export const SOURCE_WORDS: Record<UsageSource, string> = {
  provider: 'As the provider reported them.',
  counted: 'Counted by the relay as the reply went through, since no report came.',
  estimated: 'Estimated by the relay from the size of what went through, since no report came.',
  none: 'Nothing was used.',
};

/** What one of its events says. */
export function tellEvent(event: RequestEvent, story: RequestDetail): string {
  const held = (): string => {
    const tokens = numberOf(event['hold_tokens']);
    const cost = numberOf(event['hold_cost_microusd']);
    return (
      [tokens === null ? '' : `${showCount(tokens)} tokens`, cost === null ? '' : `up to ${showCost(cost)}`]
        .filter((part) => part !== '')
        .join(', ') || 'nothing'
    );
  };
  switch (event.type) {
    case 'request.accepted':
      return `Accepted and written down before anything was sent. Held ${held()}.`;
    case 'request.extended':
      return `The reply grew, and the hold with it: ${held()} in all.`;
    case 'request.settled':
      return story.end_reason === null ? 'It ended.' : END_WORDS[story.end_reason];
    case 'request.abandoned':
      return END_WORDS.abandoned;
    case 'request.rejected': {
      const count = numberOf(event['refused_count']) ?? 1;
      return count > 1
        ? `Refused, with ${showCount(count - 1)} more alike within a second.`
        : 'Refused before anything was sent.';
    }
    default:
      return event.type;
  }
}

/** Its tries at upstreams, where there was more than one. */
export function triesOf({ events }: Pick<RequestDetail, 'events'>): Attempt[] {
  const told = events.find(({ type }) => type === 'request.settled')?.['tries'];
  return Array.isArray(told) ? (told as Attempt[]) : [];
}

const numberOf = (value: unknown): number | null => (typeof value === 'number' ? value : null);

import type { EventOf } from '#db/events.ts';
import { type Ending, spentNothing } from '#server/relay/spent.ts';

type Accepted = EventOf<'request.accepted'>;

/** The one ending of an accepted request, whatever it was. Pure. */
export function settledEvent(
  accepted: Accepted,
  ending: Ending,
  upstream: string,
  durationMs: number,
): EventOf<'request.settled'> {
  const { request, account, key, model } = accepted;
  return {
    type: 'request.settled',
    request,
    account,
    key,
    model,
    upstream,
    status: ending.status,
    end_reason: ending.reason,
    usage_source: ending.source,
    input_tokens: ending.usage.input,
    cached_tokens: ending.usage.cached,
    output_tokens: ending.usage.output,
    reasoning_tokens: ending.usage.reasoning,
    attempts: 1,
    ...(ending.firstByteMs === null ? {} : { first_byte_ms: Math.round(ending.firstByteMs) }),
    duration_ms: Math.round(durationMs),
  };
}

/** The ending of a request that was recorded, or may have been, and then not carried out. */
export function shedEnding(status: number): Ending {
  return { ...spentNothing(), status, reason: 'shed', firstByteMs: null };
}

import type { EventOf } from '#db/events/events.ts';
import type { Price } from '#db/fold/price.ts';
import { costOf } from '#db/money.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import type { CallEnd } from '#server/relay/reply-usage.ts';

type Accepted = EventOf<'request.accepted'>;

/** What became of a call's tries. */
export type AttemptSummary = {
  /** The upstream of the last one; null: there was none. */
  upstream: string | null;
  count: number;
  /** Each of them, where there was more than one. */
  told: Attempt[] | undefined;
};

/**
 * The one ending of an accepted request, whatever it was, at the price that was in force when it began. Pure.
 */
export function settledEvent(
  accepted: Accepted,
  ending: CallEnd,
  tried: AttemptSummary,
  durationMs: number,
  price: Price | undefined,
): EventOf<'request.settled'> {
  const { request, account, key, model, admitted_minute, terms_position } = accepted;
  const { usage, firstByteMs } = ending;
  // Field by field, because this is made for every call and each spread would be an object more.
  const event: EventOf<'request.settled'> = {
    type: 'request.settled',
    request,
    account,
    key,
    model,
    status: ending.status,
    end_reason: ending.reason,
    usage_source: ending.source,
    input_tokens: usage.input,
    cached_tokens: usage.cached,
    output_tokens: usage.output,
    reasoning_tokens: usage.reasoning,
    attempts: tried.count,
    duration_ms: Math.round(durationMs),
  };
  if (tried.upstream !== null) event.upstream = tried.upstream;
  if (tried.told !== undefined) event.tries = tried.told;
  if (admitted_minute !== undefined) event.admitted_minute = admitted_minute;
  if (terms_position !== undefined) event.terms_position = terms_position;
  if (firstByteMs !== null) event.first_byte_ms = Math.round(firstByteMs);
  if (price) {
    event.cost_microusd = costOf(usage, price.prices);
    event.price_version = price.version;
  }
  return event;
}

/**
 * The same with no more output than the upstream was asked to stop at. Where it told no usage of
 * its own our count is an estimate, and it can't have exceeded what it was held to.
 */
export function capOutput(ending: CallEnd, outputTokens: number): CallEnd {
  if (ending.source === 'provider' || ending.usage.output <= outputTokens) return ending;
  return { ...ending, usage: { ...ending.usage, output: outputTokens } };
}

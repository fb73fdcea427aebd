import type { EventOf } from '#db/events/events.ts';
import { isRunning, readResponse } from '#server/providers/openai/responses.ts';
import { copyAttribution } from '#server/relay/admitted.ts';
import { type CallEnd, jsonUsage } from '#server/relay/reply-usage.ts';
import { capOutput, settledEvent } from '#server/relay/settle.ts';
import type { BackgroundFacts } from '#server/stored/background-facts.ts';
import {
  BACKGROUND_MAX_MS,
  POLL_EVERY_MAX_MS,
  POLL_EVERY_MIN_MS,
  UNKNOWN_IS_LOST_MS,
} from '#server/stored/bounds.ts';
import { allFacts } from '#server/wire/reply-facts.ts';
import type { Redactor } from '#server/wire/redactor.ts';

/** Decides how a background response stands. Pure. */

export type Verdict =
  | { kind: 'running'; nextMs: number }
  | { kind: 'ended'; end: CallEnd }
  /** Its usage will never be known. */
  | { kind: 'lost' };

/** The provider's reply; null: there was none. */
export type Polled = { status: number; bytes: Buffer; redactor: Redactor } | null;

/** @param ageMs since the response was begun. */
export function judgePoll(
  polled: Polled,
  { size, outputMax }: Pick<BackgroundFacts, 'size' | 'outputMax'>,
  ageMs: number,
): Verdict {
  const reply = polled?.status === 200 ? readResponse(polled.bytes, {}) : null;
  if (polled && reply && !isRunning(reply.facts.finishReason)) {
    const usage = jsonUsage(polled.status, size, reply, polled.bytes.length);
    const isCancelled = reply.facts.finishReason === 'cancelled';
    const end: CallEnd = {
      ...usage,
      facts: allFacts(usage.facts, NO_HEAD, polled.redactor),
      reason: isCancelled ? 'client_disconnected' : reply.failed ? 'upstream_error' : 'completed',
      firstByteMs: null,
    };
    return { kind: 'ended', end: outputMax === null ? end : capOutput(end, outputMax) };
  }
  const isUnknown = polled?.status === 404 && ageMs >= UNKNOWN_IS_LOST_MS;
  if (isUnknown || ageMs >= BACKGROUND_MAX_MS) return { kind: 'lost' };
  return { kind: 'running', nextMs: Math.min(Math.max(ageMs / 10, POLL_EVERY_MIN_MS), POLL_EVERY_MAX_MS) };
}

/** The head of a reply to a poll says nothing about the call. */
const NO_HEAD = { requestId: null, edgeId: null, generatedId: null, statedCost: null };

/** The ending of a call in the background. @param durationMs until the end was seen. */
export function endingOf(
  { accepted, price, attempts }: Pick<BackgroundFacts, 'accepted' | 'price' | 'attempts'>,
  { upstream, credential }: { upstream: string; credential: string | null },
  end: CallEnd,
  durationMs: number,
): EventOf<'request.settled'> {
  return settledEvent(
    accepted,
    end,
    { upstream, credential, count: attempts, records: [] },
    durationMs,
    price,
  );
}

/** The ending of a lost one, which is charged its reservation. */
export function lostEnding(
  { accepted }: Pick<BackgroundFacts, 'accepted'>,
  { hold_tokens, hold_cost_nanousd }: { hold_tokens: number; hold_cost_nanousd: number | null },
): EventOf<'request.abandoned'> {
  const { request, account, key, model, route, admitted_minute, terms_position, parents, observed } =
    accepted;
  const event: EventOf<'request.abandoned'> = {
    type: 'request.abandoned',
    request,
    account,
    key,
    model,
    route,
    hold_tokens,
    ...(hold_cost_nanousd === null ? {} : { hold_cost_nanousd }),
    end_reason: 'abandoned',
    usage_source: 'estimated',
    admitted_minute,
    terms_position,
    ...(parents === undefined ? {} : { parents }),
    ...(observed === undefined ? {} : { observed }),
  };
  copyAttribution(accepted, event);
  return event;
}

import type { EventOf } from '#db/events/events.ts';
import { type CallPrice, chargeOf, upstreamCostOf } from '#db/pricing/charge.ts';
import type { Attempt } from '#db/events/upstream-events.ts';
import { type Admitted, copyAttribution } from '#server/relay/admitted.ts';
import type { EndedAttempt } from '#server/relay/attempt-sequence.ts';
import type { CallEnd, ReplyUsage } from '#server/relay/reply-usage.ts';

type Accepted = EventOf<'request.accepted'>;

/** The attempts of a call. */
export type AttemptSummary = {
  /** The upstream of the last one; null: there was none. */
  upstream: string | null;
  /** The credential that the last one was sent with; null: none was. */
  credential: string | null;
  count: number;
  /** Each of them. */
  records: readonly EndedAttempt[];
};

/** The end of a call now, with no more output than a hard limit has reserved, and its event. */
export function endCall(
  { estimate, hold, price, startedMs }: Admitted,
  accepted: Accepted,
  attempted: AttemptSummary,
  end: CallEnd,
): { capped: CallEnd; event: EventOf<'request.settled'> } {
  const capped = estimate.isHard ? capOutput(end, hold.tokens - estimate.promptTokens) : end;
  return { capped, event: settledEvent(accepted, capped, attempted, performance.now() - startedMs, price) };
}

/**
 * The one ending of an accepted request, whatever it was, at the price that was in force when it began. Pure.
 */
export function settledEvent(
  accepted: Accepted,
  ending: CallEnd,
  attempted: AttemptSummary,
  durationMs: number,
  price: CallPrice | null,
): EventOf<'request.settled'> {
  const { request, account, key, model, route, admitted_minute, terms_position, parents } = accepted;
  const { usage, facts, firstByteMs } = ending;
  // This is made for every call: each spread would be an object more, and each field that is added to the
  // object later makes its memory grow. So those that most calls have are in it from the beginning.
  const event: EventOf<'request.settled'> = {
    type: 'request.settled',
    request,
    account,
    key,
    model,
    route,
    status: ending.status,
    end_reason: ending.reason,
    usage_source: ending.source,
    input_tokens: usage.input,
    cache_read_tokens: usage.cached,
    output_tokens: usage.output,
    reasoning_tokens: usage.reasoning,
    attempt_count: attempted.count,
    duration_ms: Math.round(durationMs),
    first_byte_ms: firstByteMs === null ? undefined : Math.round(firstByteMs),
    upstream: attempted.upstream ?? undefined,
    credential: attempted.credential ?? undefined,
    answered_model: facts.answeredModel ?? undefined,
    finish_reason: facts.finishReason ?? undefined,
    service_tier: facts.serviceTier ?? undefined,
    provider_request: facts.providerRequest ?? undefined,
    admitted_minute,
    terms_position,
    cost_nanousd: undefined,
    price_version: undefined,
  };
  if (usage.cacheWrite !== undefined) event.cache_write_tokens = usage.cacheWrite;
  if (usage.details !== undefined) event.usage_details = usage.details;
  if (facts.statedCost !== null) event.stated_cost_nanousd = facts.statedCost;
  copyAttribution(accepted, event);
  if (parents !== undefined) event.parents = parents;
  if (accepted.observed !== undefined) event.observed = accepted.observed;
  if (price) {
    const call = {
      minute: admitted_minute ?? 0,
      serviceTier: event.service_tier,
      upstream: event.upstream,
    };
    const { charge, upstreamCost, version, unpriced } = chargeOf(price, usage, call);
    event.cost_nanousd = charge;
    event.price_version = version;
    if (upstreamCost !== undefined) event.upstream_cost_nanousd = upstreamCost;
    if (price.sell !== undefined && price.plan !== null) event.price_plan = price.plan;
    if (unpriced !== undefined) event.unpriced = unpriced;
  }
  addAttempts(event, attempted.records, ending, price);
  return event;
}

/**
 * Adds each attempt with its usage and cost where there was more than one, or where the only one used more
 * than is charged; and the cost of all of them together where it differs from the charge.
 */
function addAttempts(
  event: EventOf<'request.settled'>,
  records: readonly EndedAttempt[],
  ending: CallEnd,
  price: CallPrice | null,
): void {
  if (records.length < 2 && !usesMore(records[0]?.consumed, ending)) return;
  let costs = 0;
  const minute = event.admitted_minute ?? 0;
  event.attempts = records.map(({ attempt, consumed }) => {
    const used = consumed ?? ending;
    const { upstream } = attempt;
    const serviceTier = used.facts.serviceTier ?? undefined;
    const cost =
      price && used.source !== 'none'
        ? upstreamCostOf(price, used.usage, { minute, serviceTier, upstream })
        : null;
    costs += cost ?? 0;
    return attemptEvent(attempt, used, cost);
  });
  if (!price?.cost) return;
  if (costs === event.cost_nanousd) delete event.upstream_cost_nanousd;
  else event.upstream_cost_nanousd = costs;
}

function usesMore(consumed: ReplyUsage | null | undefined, { usage }: CallEnd): boolean {
  if (!consumed) return false;
  const { input, output } = consumed.usage;
  return input !== usage.input || output !== usage.output;
}

function attemptEvent(attempt: Attempt, { usage, source, facts }: ReplyUsage, cost: number | null): Attempt {
  const event = { ...attempt };
  if (facts.answeredModel !== null) event.answered_model = facts.answeredModel;
  if (facts.providerRequest !== null) event.provider_request = facts.providerRequest;
  if (source === 'none') return event;
  event.usage_source = source;
  if (usage.input > 0) event.input_tokens = usage.input;
  if (usage.cached > 0) event.cache_read_tokens = usage.cached;
  if (usage.cacheWrite !== undefined) event.cache_write_tokens = usage.cacheWrite;
  if (usage.output > 0) event.output_tokens = usage.output;
  if (usage.reasoning > 0) event.reasoning_tokens = usage.reasoning;
  if (usage.details !== undefined) event.usage_details = usage.details;
  if (cost !== null) event.upstream_cost_nanousd = cost;
  if (facts.statedCost !== null) event.stated_cost_nanousd = facts.statedCost;
  return event;
}

/**
 * The same with no more output than the limit that the upstream was given. Where it reported no usage
 * our count is an estimate, and the true one can't have exceeded the limit.
 */
export function capOutput(ending: CallEnd, outputTokens: number): CallEnd {
  if (ending.source === 'provider' || ending.usage.output <= outputTokens) return ending;
  return { ...ending, usage: { ...ending.usage, output: outputTokens } };
}

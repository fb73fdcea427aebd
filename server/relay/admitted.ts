import type { EventOf } from '#db/events/events.ts';
import type { Key } from '#db/fold/key.ts';
import type { CallPrice } from '#db/pricing/charge.ts';
import type { RelayedRoute, SubjectLimits } from '#db/limits/limits.ts';
import type { Amounts } from '#db/limits/meters.ts';
import type { CallAttribution } from '#server/attribution/attribution.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import type { ActiveInstance } from '#server/instance/server-instance.ts';
import type { PastCalls } from '#server/limits/call-history.ts';
import type { Reservation } from '#server/limits/reservation.ts';
import type { KeyedCall } from '#server/idempotency/keyed-call.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import type { ClientReply } from '#server/http/client-reply.ts';
import type { CallBinding } from '#server/relay/attempt-sequence.ts';
import type { Reply } from '#server/relay/reply.ts';
import { type CallEstimate, maxOutputTokens } from '#server/relay/call-estimate.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Target } from '#server/upstreams/target.ts';
import type { Body } from '#server/wire/read-body.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';

/** An admitted request with everything that was found out about it. */
export type Admitted = {
  key: Key;
  context: RequestContext;
  parsed: ParsedRequest;
  /** Who the call is for, as pseudonyms. */
  attribution: Readonly<CallAttribution>;
  body: Body;
  route: RelayedRoute;
  /** The client's protocol where it isn't that of the route. */
  protocol: 'gemini' | undefined;
  /** The model that the name in the request resolves to. */
  model: string;
  /** The upstreams that serve it: at least one. */
  targets: readonly Target[];
  /** The credential that holds the response that it continues; null: it continues none. */
  heldBy: UpstreamConnectionPool | null;
  subjects: readonly SubjectLimits[];
  /** The parent of its account, and that one's. */
  parents: readonly string[];
  termsPosition: number;
  price: CallPrice | null;
  estimate: CallEstimate;
  /** The calls before it, which it is learned into when it ends. */
  past: PastCalls;
  hold: Reservation;
  /** Its share of this process' memory. */
  open: OpenCall;
  instance: ActiveInstance;
  response: ClientReply;
  reply: Reply;
  /** Its claim of an idempotency key; null: it came without one. */
  keyed: KeyedCall | null;
  retryCount: number | undefined;
  /** The client's headers that belong to its protocol, in pairs. */
  protocolHeaders: readonly string[];
  startedMs: number;
};

/** The event that records the call before it is sent to an upstream. Pure. */
export function acceptedEvent(admitted: Admitted): EventOf<'request.accepted'> {
  const { key, parsed, attribution, model, route, body, hold, reply, retryCount } = admitted;
  const { parents, termsPosition, estimate } = admitted;
  const event: EventOf<'request.accepted'> = {
    type: 'request.accepted',
    request: reply.requestId,
    account: key.account,
    key: key.id,
    model,
    route,
    sse: parsed.sse,
    body_bytes: body.bytes.length + (body.rest?.length ?? 0),
    hold_tokens: hold.tokens,
    hold_cost_nanousd: hold.cost,
    admitted_minute: hold.minute,
    terms_position: termsPosition,
    prompt_estimate: estimate.promptTokens,
    max_output_tokens: maxOutputTokens(estimate),
  };
  if (parents.length > 0) event.parents = [...parents];
  if (hold.rejections.length > 0) event.observed = [...hold.rejections];
  if (retryCount !== undefined) event.retry_count = retryCount;
  copyAttribution(attribution, event);
  return event;
}

/**
 * What binds a call: to the upstream and credential that keep the state of its session, or of its key where
 * it has none, as far as its provider keeps any.
 */
export function bindingOf({ key, parsed, attribution, heldBy, body }: Admitted): CallBinding {
  const affinity = parsed.storage === undefined ? null : (attribution.session ?? key.id);
  return { affinity, heldBy, rest: body.rest ?? null };
}

/** Copies the fields of a call's attribution to one of its events. */
export function copyAttribution(
  { end_user, session, tags }: Pick<EventOf<'request.accepted'>, keyof CallAttribution>,
  event: Pick<EventOf<'request.accepted'>, keyof CallAttribution>,
): void {
  if (end_user !== undefined) event.end_user = end_user;
  if (session !== undefined) event.session = session;
  if (tags !== undefined) event.tags = tags;
}

/** The event that the reservation of a call has grown. */
export function extendedEvent(
  accepted: EventOf<'request.accepted'>,
  { tokens, cost }: Amounts,
): EventOf<'request.extended'> {
  const { request, account, key, model, route, admitted_minute = 0, terms_position = 0 } = accepted;
  const { parents, observed } = accepted;
  const event: EventOf<'request.extended'> = {
    type: 'request.extended',
    request,
    account,
    key,
    model,
    route,
    hold_tokens: tokens,
    hold_cost_nanousd: cost,
    admitted_minute,
    terms_position,
    ...(parents === undefined ? {} : { parents }),
    ...(observed === undefined ? {} : { observed }),
  };
  copyAttribution(accepted, event);
  return event;
}

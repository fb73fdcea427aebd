import type { IncomingMessage } from 'node:http';
import type { Key } from '#db/fold/key.ts';
import { minuteOf } from '#db/limits/windows.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { rateHeaders } from '#server/limits/figures.ts';
import { Reservation } from '#server/limits/reservation.ts';
import { limitErrorOf } from '#server/limits/limit-error.ts';
import { rejectUnbounded } from '#server/limits/unbounded-request.ts';
import { type CallEstimate, estimateCall, maxOutputTokens } from '#server/relay/call-estimate.ts';
import { type ApiKeyHeader, authenticate, readSecretFromEither } from '#server/access/authenticate.ts';
import { authorize, authorizeModel } from '#server/access/authorize.ts';
import { authorizePrice } from '#server/access/authorize-price.ts';
import { callPriceOf, pricingOf } from '#server/read-model/call-price.ts';
import type { CallAttribution } from '#server/attribution/attribution.ts';
import { readAttribution } from '#server/attribution/read-attribution.ts';
import { applyTerms, requireAttribution } from '#server/attribution/require.ts';
import { type Body, readBody, releaseBody } from '#server/wire/read-body.ts';
import { beginKeyed } from '#server/idempotency/begin.ts';
import { readIdempotencyKey } from '#server/idempotency/key-header.ts';
import type { KeyedCall } from '#server/idempotency/keyed-call.ts';
import type { RejectedCall, RejectedSize } from '#server/instance/rejection-log.ts';
import { Call } from '#server/relay/call.ts';
import type { ClientReply } from '#server/http/client-reply.ts';
import { type RequestContext, requestContextOf } from '#server/access/request-context.ts';
import { findHolder } from '#server/stored/previous-response.ts';
import { findTargets } from '#server/upstreams/find-targets.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import { OVERLOAD_DELAY_MS } from '#server/relay/bounds.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { CallerSpec } from '#server/access/caller-spec.ts';
import type { RelayedSpec } from '#server/relay/routes.ts';
import type { FormSpec } from '#server/media/form-requests.ts';
import { readForm } from '#server/media/upload.ts';
import type { ParsedRequest, RequestParser } from '#server/wire/request-parser.ts';
import { checkMedia, clientRetryCount, type Reply, sendError } from '#server/relay/reply.ts';

/** Whose call a request is. */
type Identify = (relay: Relay, request: IncomingMessage) => Key | ApiError;

const bySecret: Identify = ({ readModel, pepper, secretUse }, { rawHeaders }) =>
  authenticate(rawHeaders, readModel, pepper, secretUse);
const byHeader =
  (name: ApiKeyHeader): Identify =>
  ({ readModel, pepper, secretUse }, { rawHeaders }) =>
    authenticate(rawHeaders, readModel, pepper, secretUse, (headers) => readSecretFromEither(headers, name));
const BY_HEADER = { 'x-api-key': byHeader('x-api-key'), 'x-goog-api-key': byHeader('x-goog-api-key') };

/**
 * Receives the body of a call, which is open and holds the memory for it.
 * @returns null: the client has disconnected.
 */
export type Receive = (
  relay: Relay,
  request: IncomingMessage,
  response: ClientReply,
  open: OpenCall,
) => Body | ApiError | Promise<Body | ApiError | null>;

const receiveBody: Receive = ({ maxBodyBytes }, request, response, open) =>
  readBody(request, response, { maxBytes: maxBodyBytes, hold: (bytes) => open.holdBody(bytes) });

/** A request of a relayed route with its response. */
type Incoming = {
  spec: RelayedSpec;
  request: IncomingMessage;
  response: ClientReply;
  reply: Reply;
  receive: Receive;
  startedMs: number;
};

/** An open call: its caller is known and may use its route. */
export type OpenedCall = { key: Key; context: RequestContext; open: OpenCall };

/**
 * A call of a relayed route, from the first look at its headers to its end. Each stage either goes on or
 * refuses.
 * @param identify finds the key where it does not come by its secret.
 * @param receive gets the body where it isn't that of the request.
 */
export async function handleCall(
  relay: Relay,
  spec: RelayedSpec,
  request: IncomingMessage,
  response: ClientReply,
  reply: Reply,
  identify?: Identify,
  receive: Receive = receiveBody,
): Promise<void> {
  const startedMs = performance.now();
  reply.diagnostics?.called(spec.route);
  const opened = openCall(relay, { spec, request, response, reply, startedMs }, identify);
  if (opened === null) return reply.diagnostics?.ended();
  const { key, context, open } = opened;
  try {
    await admit(relay, { spec, request, response, reply, receive, startedMs }, key, context, open);
  } finally {
    open.close();
    reply.diagnostics?.ended();
  }
}

/**
 * Identifies and authorizes the caller by the headers. The call is open from here on: it counts as concurrent
 * before its body has been received.
 * @returns null: an error was sent.
 */
export function openCall(
  relay: Relay,
  { spec, request, response, reply, startedMs }: Omit<Incoming, 'spec' | 'receive'> & { spec: CallerSpec },
  identify: Identify = spec.apiKeyHeader ? BY_HEADER[spec.apiKeyHeader] : bySecret,
): OpenedCall | null {
  const { readModel } = relay;
  const refused = (refusal: ApiError): null => {
    sendError(request, response, reply, refusal);
    return null;
  };
  if (relay.phase === 'stopped') return refused(new ApiError('shutting_down'));
  if (relay.openCalls.isFull || relay.fencing.delayMs > OVERLOAD_DELAY_MS)
    return refused(new ApiError('relay_overloaded'));
  // Before the key is judged: what this process doesn't know yet must not look like a wrong key.
  const isFit = readModel.isCurrent() && relay.fencing.isValid(startedMs);
  if (!isFit) return refused(new ApiError('store_unavailable'));

  const key = identify(relay, request);
  if (key instanceof ApiError) return refused(key);
  const context = requestContextOf(request, spec.route, relay.trustedProxies);
  const open =
    authorize(key, context, readModel) ??
    checkMedia(request.headers, typeof spec.parse !== 'function') ??
    relay.openCalls.open(key, readModel.limitsOf(key));
  if (!(open instanceof ApiError)) return { key, context, open };
  relay.rejections.note(key, { request: reply.requestId, route: spec.route }, open);
  return refused(open);
}

/** Clients write another boundary into each attempt, so that no two of them are the same request. */
const UNKEYED_FORM = new ApiError('invalid_value', {
  message: "A form can't have an Idempotency-Key, since each attempt is another form. Leave the header out.",
});

/** A request whose model its key may use. */
type Permitted = Incoming & {
  key: Key;
  context: RequestContext;
  open: OpenCall;
  body: Body;
  parsed: ParsedRequest;
  attribution: Readonly<CallAttribution>;
  model: string;
  protocolHeaders: readonly string[];
  /** Recorded where the request is rejected. */
  rejected: RejectedCall;
  refused: (refusal: ApiError) => void;
};

/** From the body of a call to the permission for its model, and to the claim of its idempotency key. */
async function admit(
  relay: Relay,
  incoming: Incoming,
  key: Key,
  context: RequestContext,
  open: OpenCall,
): Promise<void> {
  const { spec, request, response, reply } = incoming;
  const { readModel } = relay;
  let body: Body | null = null;
  const rejected: RejectedCall = { request: reply.requestId, route: spec.route };
  const refused = (refusal: ApiError): void => {
    body?.rest?.discard();
    if (body) releaseBody(body);
    relay.rejections.note(key, rejected, refusal);
    sendError(request, response, reply, refusal);
  };

  const { parse } = spec;
  // The headers of a WebSocket's handshake belong to none of its messages.
  const idempotencyKey = incoming.receive === receiveBody ? readIdempotencyKey(request) : null;
  if (idempotencyKey instanceof ApiError) return refused(idempotencyKey);
  if (idempotencyKey !== null && typeof parse !== 'function') return refused(UNKEYED_FORM);
  const received = await (typeof parse === 'function'
    ? incoming.receive(relay, request, response, open)
    : readForm(request, response, {
        maxBytes: relay.maxBodyBytes,
        hold: (bytes) => open.holdBody(bytes),
        schema: parse.schema,
      }));
  if (received === null) return;
  if (received instanceof ApiError) return refused(received);
  const isForm = 'reader' in received;
  body = isForm ? received.body : received;
  const parsed = isForm
    ? (parse as FormSpec).parse(received.reader, received.boundary, received.bytes)
    : (parse as RequestParser)(body.bytes);
  if (parsed instanceof ApiError) return refused(parsed);
  // An alias that may lead elsewhere now.
  if (readModel.unapplied.ofModel(parsed.model)) return refused(new ApiError('relay_outdated'));
  const attributed = attribute(relay, key, request, body, parsed);
  const attribution = attributed instanceof Promise ? await attributed : attributed;
  if (attribution instanceof ApiError) return refused(attribution);
  rejected.attribution = attribution;
  const model = relay.upstreams.table.resolve(parsed.model);
  rejected.model = model;
  const forbiddenModel = authorizeModel(key, model, readModel);
  if (forbiddenModel) return refused(forbiddenModel);
  const protocolHeaders = spec.protocolHeaders ? sentHeaders(request, spec.protocolHeaders) : NO_HEADERS;
  const permitted = {
    ...incoming,
    ...{ key, context, open, body, parsed, attribution, model, protocolHeaders, rejected, refused },
  };
  if (idempotencyKey === null) return reserve(relay, permitted, null);
  const keyed = await beginKeyed(relay, { ...permitted, idempotencyKey, body: body.bytes });
  if (keyed === 'replied') return releaseBody(body);
  if (keyed instanceof ApiError) return refused(keyed);
  try {
    await reserve(relay, permitted, keyed);
  } finally {
    keyed.releaseUnlessBegun();
  }
}

/** From the permission of a call to its admission; from there on it is a {@link Call}. */
async function reserve(relay: Relay, permitted: Permitted, keyed: KeyedCall | null): Promise<void> {
  const { spec, request, response, reply, startedMs, key, open, body, parsed, rejected, refused } = permitted;
  const { attribution, model } = permitted;
  const { route, protocol } = spec;
  const { readModel, instance } = relay;
  // Recovery looks for the request in the log of the instance that has the claim.
  if (keyed && keyed.of.instance !== instance.appender.instance)
    return refused(new ApiError('store_unavailable'));
  const targets = findTargets(relay.upstreams.table, model, route, protocol);
  if (targets instanceof ApiError) return refused(targets);
  const subjects = readModel.limitsOf(key, attribution);
  const termsPosition = readModel.termsPosition(key);
  const parents = readModel.charged.parentsOf(key.account);
  const pricing = pricingOf(readModel, key.account);
  const price = callPriceOf(readModel, pricing, model);
  const unpriced = authorizePrice(price, pricing, subjects);
  if (unpriced) return refused(unpriced);
  // The client has disconnected, so nothing is begun.
  if (response.destroyed) return releaseBody(body);

  const past = relay.history.of(key.id, model);
  const minute = minuteOf(readModel.nowMs());
  const estimate = estimateCall(body.bytes, parsed, subjects, price, past, minute);
  const unbounded = estimate.isHard ? rejectUnbounded(route, body.bytes, model, targets, protocol) : null;
  if (unbounded) {
    rejected.size = rejectedSize(body, estimate, minute);
    return refused(unbounded);
  }
  const { previousResponse } = parsed;
  const holder =
    previousResponse === undefined ? null : await findHolder(relay, key.account, previousResponse, targets);
  if (holder instanceof ApiError) return refused(holder);
  const decision = instance.limits.admit(subjects, estimate.need);
  const hold = decision instanceof Promise ? await decision : decision;
  if (!(hold instanceof Reservation)) {
    rejected.size = rejectedSize(body, estimate, minute);
    return refused(limitErrorOf(hold, readModel.nowMs(), key.account));
  }
  if (response.destroyed) {
    instance.limits.release(hold);
    return releaseBody(body);
  }
  if (subjects.length > 0)
    reply.extraHeaders = [...reply.extraHeaders, ...rateHeaders(hold.counters, readModel.nowMs())];

  const call = new Call(relay, {
    key,
    context: permitted.context,
    route,
    protocol,
    parsed,
    attribution,
    model,
    targets: holder ? [holder.target] : targets,
    heldBy: holder?.pool ?? null,
    body,
    subjects,
    parents,
    termsPosition,
    price,
    estimate,
    past,
    hold,
    open,
    instance,
    response,
    reply,
    keyed,
    retryCount: clientRetryCount(request.headers),
    startedMs,
    protocolHeaders: permitted.protocolHeaders,
  });
  const refusal = await call.run();
  body.rest?.discard();
  if (refusal) sendError(request, response, reply, refusal);
}

/** Who a call is for, as its client says or its key fixes. */
export function attribute(
  { attribution, readModel }: Pick<Relay, 'attribution' | 'readModel'>,
  key: Key,
  { rawHeaders }: Pick<IncomingMessage, 'rawHeaders'>,
  { bytes }: Pick<Body, 'bytes'>,
  { scanned }: Pick<ParsedRequest, 'scanned'>,
): CallAttribution | ApiError | Promise<CallAttribution | ApiError> {
  const of = key.terms?.attribution;
  const sent = readAttribution(rawHeaders, bytes, scanned);
  const values = of === undefined ? sent : applyTerms(sent, of);
  if (values instanceof ApiError) return values;
  const resolved = attribution.resolve(key.account, values);
  return resolved instanceof Promise
    ? resolved.then((loaded) => requireAttribution(loaded, of, readModel.charged.isApart(key)))
    : requireAttribution(resolved, of, resolved === null && readModel.charged.isApart(key));
}

/** What the reservation of a rejected call would have followed from. */
const rejectedSize = ({ bytes }: Body, estimate: CallEstimate, minute: number): RejectedSize => ({
  body_bytes: bytes.length,
  hold_tokens: estimate.need.minimum.tokens,
  prompt_estimate: estimate.promptTokens,
  max_output_tokens: maxOutputTokens(estimate),
  admitted_minute: minute,
});

const NO_HEADERS: readonly string[] = [];
const HEADER_CHARACTERS_MAX = 2_000;

/** Those of these headers that came, in pairs, as far as they are what such headers are. */
export function sentHeaders({ headers }: IncomingMessage, names: readonly string[]): readonly string[] {
  return names.flatMap((name) => {
    const value = headers[name];
    return typeof value === 'string' && value.length <= HEADER_CHARACTERS_MAX && /^[\x20-\x7e]+$/.test(value)
      ? [name, value]
      : [];
  });
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { EventOf } from '#db/events/events.ts';
import { authorizeModel } from '#server/access/authorize.ts';
import { COUNT_REPLY_MS } from '#server/counting/bounds.ts';
import type { CountSpec } from '#server/counting/count-specs.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { RejectedCall } from '#server/instance/rejection-log.ts';
import { promptSize } from '#server/limits/prompt-estimate.ts';
import { copyAttribution } from '#server/relay/admitted.ts';
import { likelyPrompt } from '#server/relay/call-estimate.ts';
import { attribute, openCall, type OpenedCall, sentHeaders } from '#server/relay/handle.ts';
import type { Relay } from '#server/relay/relay.ts';
import { type Reply, sendError } from '#server/relay/reply.ts';
import { exchange } from '#server/stored/exchange.ts';
import { choose } from '#server/upstreams/choose.ts';
import { findTargets } from '#server/upstreams/find-targets.ts';
import type { Target } from '#server/upstreams/target.ts';
import { TOKENS_MAX } from '#server/wire/bounds.ts';
import { type Body, readBody, releaseBody } from '#server/wire/read-body.ts';
import type { ParsedRequest } from '#server/wire/request-parser.ts';

/**
 * Counts of the tokens of a request that isn't sent, by the upstream that would serve it where it counts in
 * the client's protocol, else estimated. A count is a `tokens.counted` event. It is charged nothing and
 * reserves nothing: no model runs. It counts as a concurrent request, and each key and account has as many in
 * a minute as it has requests.
 */

/** States whether the number is the provider's or an estimate. */
export const COUNT_SOURCE_HEADER = 'x-daybook-count-source';

/** Statuses by which an upstream judges the request itself: the call would be rejected, too. */
const CLIENT_FAULTS: ReadonlySet<number> = new Set([400, 413, 422]);

/** A number of tokens, with the reply of the upstream that counted; null: it is an estimate. */
type Counted = { tokens: number; upstream: string | null; reply: Buffer | null };

/** Serves a request for a count, from its headers to its reply. */
export async function countTokens(
  relay: Relay,
  spec: CountSpec,
  request: IncomingMessage,
  response: ServerResponse,
  reply: Reply,
): Promise<void> {
  const startedMs = performance.now();
  const opened = openCall(relay, { spec, request, response, reply, startedMs });
  if (opened === null) return;
  let body: Body | null = null;
  const rejected: RejectedCall = { request: reply.requestId, route: spec.route };
  try {
    const limited = relay.counts.take(
      opened.key.id,
      relay.readModel.limitsOf(opened.key),
      relay.readModel.nowMs(),
    );
    const received =
      limited ??
      (await readBody(request, response, {
        maxBytes: relay.maxBodyBytes,
        hold: (bytes) => opened.open.holdBody(bytes),
      }));
    if (received === null) return;
    if (!(received instanceof ApiError)) body = received;
    const event =
      received instanceof ApiError
        ? received
        : await count(relay, spec, { ...opened, request, response, reply, body: received, rejected });
    if (event instanceof ApiError) {
      relay.rejections.note(opened.key, rejected, event);
      return sendError(request, response, reply, event);
    }
    if (event === null) return;
    relay.instance.appender.note({ ...event, duration_ms: Math.round(performance.now() - startedMs) });
  } finally {
    if (body) releaseBody(body);
    opened.open.close();
  }
}

type Incoming = OpenedCall & {
  request: IncomingMessage;
  response: ServerResponse;
  reply: Reply;
  body: Body;
  rejected: RejectedCall;
};

/** @returns the event of the count, whose reply was sent; null: the client has disconnected. */
async function count(
  relay: Relay,
  spec: CountSpec,
  { key, open, request, response, reply, body, rejected }: Incoming,
): Promise<EventOf<'tokens.counted'> | ApiError | null> {
  const { readModel, instance } = relay;
  const { bytes } = body;
  const bodyBytes = bytes.length;
  const parsed = spec.parse(bytes);
  if (parsed instanceof ApiError) return parsed;
  if (readModel.unapplied.ofModel(parsed.model)) return new ApiError('relay_outdated');
  const attribution = await attribute(relay, key, request, body, parsed);
  if (attribution instanceof ApiError) return attribution;
  rejected.attribution = attribution;
  const model = relay.upstreams.table.resolve(parsed.model);
  rejected.model = model;
  const forbidden = authorizeModel(key, model, readModel);
  if (forbidden) return forbidden;
  const preferred = spec.protocol === 'gemini' ? 'gemini' : null;
  const targets = findTargets(relay.upstreams.table, model, spec.route, preferred);
  if (targets instanceof ApiError) return targets;
  // It could not be recorded.
  if (instance.appender.mode !== 'up') return new ApiError('store_unavailable');

  const headers = sentHeaders(request, spec.protocolHeaders);
  const past = relay.history.of(key.id, model);
  const estimate = Math.min(TOKENS_MAX, likelyPrompt(promptSize(bytes), past));
  const counted = (await countUpstream(spec, { targets, model, body, parsed, headers, open, response })) ?? {
    ...{ tokens: estimate, upstream: null, reply: null },
  };
  if (counted instanceof ApiError) return counted;
  if (response.destroyed) return null;
  send(response, reply, spec, counted);
  const event: EventOf<'tokens.counted'> = {
    type: 'tokens.counted',
    request: reply.requestId,
    account: key.account,
    key: key.id,
    model,
    route: spec.route,
    body_bytes: bodyBytes,
    usage_source: counted.upstream === null ? 'estimated' : 'provider',
    input_tokens: counted.tokens,
    duration_ms: 0,
  };
  if (counted.upstream !== null) event.upstream = counted.upstream;
  copyAttribution(attribution, event);
  return event;
}

/** @returns null: no upstream has counted, whatever the reason: the client is to get an estimate. */
async function countUpstream(
  { protocol, request, read }: CountSpec,
  call: Pick<Incoming, 'body' | 'open' | 'response'> & {
    targets: readonly Target[];
    model: string;
    parsed: ParsedRequest;
    headers: readonly string[];
  },
): Promise<Counted | ApiError | null> {
  const counting = call.targets.filter(({ upstream }) => upstream.counting === protocol);
  const choice = choose(counting, [], [], performance.now(), Math.random());
  if (choice === null) return null;
  const { upstream, model } = choice.target;
  const asked = request(call.body, call.parsed, model ?? call.model, call.headers);
  const reply = await exchange(
    { upstream, pool: choice.pool, open: call.open, response: call.response },
    { method: 'POST', ...asked, headers: ['content-type', 'application/json', ...(asked.headers ?? [])] },
    AbortSignal.timeout(COUNT_REPLY_MS),
  );
  if (reply instanceof ApiError) return CLIENT_FAULTS.has(reply.status) ? reply : null;
  const tokens = reply && read(parsedOrNull(reply));
  return reply === null || tokens === null || tokens > TOKENS_MAX
    ? null
    : { tokens, upstream: upstream.name, reply };
}

function parsedOrNull(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString()) as unknown;
  } catch {
    return null;
  }
}

function send(response: ServerResponse, reply: Reply, { write }: CountSpec, counted: Counted): void {
  const bytes = counted.reply ?? Buffer.from(JSON.stringify(write(counted.tokens)));
  response.writeHead(200, [
    ...['content-type', 'application/json', 'content-length', String(bytes.length)],
    ...['x-request-id', reply.requestId],
    ...[COUNT_SOURCE_HEADER, counted.upstream === null ? 'estimate' : 'provider'],
    ...reply.extraHeaders,
  ]);
  response.end(bytes);
}

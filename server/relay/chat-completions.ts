import type { IncomingMessage, ServerResponse } from 'node:http';
import type { EventOf } from '#db/events.ts';
import { type Appender, StoreUnavailable } from '#server/appender.ts';
import { Refusal } from '#server/errors.ts';
import type { ReadModel } from '#server/read-model.ts';
import { type Admission, estimateHold, promptEstimate } from '#server/relay/admit.ts';
import { authenticate } from '#server/relay/authenticate.ts';
import { authorize } from '#server/relay/authorize.ts';
import { askUsage, type Body, ClientGone, readBody, releaseBody } from '#server/relay/body.ts';
import type { Deadlines } from '#server/relay/deadlines.ts';
import { Delivery, type DeliveryOptions } from '#server/relay/deliver.ts';
import type { ModelTable } from '#server/relay/dispatch.ts';
import { parseChat } from '#server/relay/parse.ts';
import { checkMedia, clientRetryCount, type Reply, refuse } from '#server/relay/reply.ts';
import { settledEvent, shedEnding } from '#server/relay/settle.ts';
import { type Ending, spentNothing } from '#server/relay/spent.ts';

/** What the relayed calls of a process share. */
export type Relay = {
  readModel: ReadModel;
  pepper: Buffer;
  appender: Appender;
  admission: Admission;
  models: ModelTable;
  deadlines: Deadlines;
  timeouts: DeliveryOptions['timeouts'];
  maxBodyBytes: number;
  overlapped: boolean;
  /** Set when the process is about to end: nothing new is taken. */
  draining: boolean;
  /** What runs at this moment, so that it can be ended at a shutdown or a fence. */
  running: Set<Delivery>;
};

/**
 * POST /v1/chat/completions, from the first look at its headers to its settlement. Each stage
 * either goes on or refuses; the call is recorded before it leaves.
 */
export async function chatCompletions(
  relay: Relay,
  request: IncomingMessage,
  response: ServerResponse,
  reply: Reply,
): Promise<void> {
  const startedMs = performance.now();
  if (relay.draining) return refuse(request, response, reply, new Refusal('shutting_down'));
  // Before the key is judged: what this process doesn't know yet must not look like a wrong key.
  if (!relay.readModel.isCurrent()) return refuse(request, response, reply, new Refusal('store_unavailable'));

  const key = authenticate(request.rawHeaders, relay.readModel, relay.pepper);
  if (key instanceof Refusal) return refuse(request, response, reply, key);
  const forbidden = authorize(key, relay.readModel) ?? checkMedia(request.headers);
  if (forbidden) return refuse(request, response, reply, forbidden);

  const body = await receive(request, response, relay.maxBodyBytes);
  if (body === null) return;
  if (body instanceof Refusal) return refuse(request, response, reply, body);
  const refused = (refusal: Refusal): void => {
    releaseBody(body);
    refuse(request, response, reply, refusal);
  };

  const chat = parseChat(body.bytes);
  if (chat instanceof Refusal) return refused(chat);
  const upstream = relay.models.find(chat.model);
  if (!upstream) return refused(new Refusal('model_not_found', { param: 'model' }));
  // Nobody waits for it any more, so nothing is begun.
  if (response.destroyed) return releaseBody(body);
  const bodyBytes = body.bytes.length;
  const hold = relay.admission.admit(key.account, estimateHold(bodyBytes, chat.completionLimit));
  if (hold instanceof Refusal) return refused(hold);

  const retryCount = clientRetryCount(request.headers);
  const accepted: EventOf<'request.accepted'> = {
    type: 'request.accepted',
    request: reply.requestId,
    account: key.account,
    key: key.id,
    model: chat.model,
    sse: chat.sse,
    body_bytes: bodyBytes,
    hold_tokens: hold.tokens,
    ...(retryCount === undefined ? {} : { retry_count: retryCount }),
  };
  const settle = (ending: Ending): void => {
    relay.appender.settle(settledEvent(accepted, ending, upstream.name, performance.now() - startedMs));
    hold.release();
    releaseBody(body);
  };
  // An ending must not be written before its beginning: until then it waits here.
  const record = { isDurable: false, ending: null as Ending | null };
  const begin = (gateOpen: boolean): Delivery => {
    const delivery = new Delivery({
      response,
      requestId: reply.requestId,
      extraHeaders: reply.extraHeaders,
      stripUsage: chat.sse && !chat.asksUsage,
      promptEstimate: promptEstimate(bodyBytes),
      upstreamHost: upstream.host,
      timeouts: relay.timeouts,
      deadlines: relay.deadlines,
      gateOpen,
      onEnd: (ending) => {
        relay.running.delete(delivery);
        if (record.isDurable) settle(ending);
        else record.ending = ending;
      },
    });
    relay.running.add(delivery);
    response.on('close', () => delivery.clientGone());
    upstream.send(askUsage(body, chat), chat.sse, delivery);
    return delivery;
  };

  const durable = relay.appender.accept(accepted);
  const early = relay.overlapped && relay.appender.mode === 'up' ? begin(false) : null;
  try {
    await durable;
    record.isDurable = true;
  } catch (error) {
    if (early) {
      relay.running.delete(early);
      early.discard();
    }
    const refusal = new Refusal('store_unavailable');
    // The lost answer may have been a commit: then this is its ending.
    if (error instanceof StoreUnavailable && error.pending) settle(record.ending ?? shedEnding(refusal.status));
    else hold.release();
    return refused(refusal);
  }
  if (record.ending) settle(record.ending);
  else if (early) early.openGate();
  else if (response.destroyed) settle({ ...spentNothing(), reason: 'client_gone', firstByteMs: null });
  else if (relay.draining) {
    settle(shedEnding(503));
    refuse(request, response, reply, new Refusal('shutting_down'));
  } else begin(true);
}

async function receive(
  request: IncomingMessage,
  response: ServerResponse,
  maxBytes: number,
): Promise<Body | Refusal | null> {
  try {
    return await readBody(request, response, maxBytes);
  } catch (error) {
    if (error instanceof ClientGone) return null;
    throw error;
  }
}

import type { IncomingMessage } from 'node:http';
import type { Key } from '#db/fold/key.ts';
import type { RequestContext } from '#server/access/request-context.ts';
import type { CallAttribution } from '#server/attribution/attribution.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ClientReply } from '#server/http/client-reply.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import type { Claimed } from '#server/idempotency/idempotency.ts';
import { identifyRequest, type KeyIdentity } from '#server/idempotency/key-header.ts';
import { answerOf } from '#server/idempotency/key-state.ts';
import type { KeyedCall } from '#server/idempotency/keyed-call.ts';
import { keyInUse, keyReused, noReply, outcomeUnknown } from '#server/idempotency/refusals.ts';
import { Repeat, type RepeatEnd } from '#server/idempotency/repeat.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import type { Relay } from '#server/relay/relay.ts';
import type { Reply } from '#server/relay/reply.ts';

/** A request with an idempotency key that is authorized, and that no limit was asked about yet. */
export type Keyed = {
  idempotencyKey: string;
  key: Key;
  context: RequestContext;
  attribution: Readonly<CallAttribution>;
  body: Buffer;
  protocolHeaders: readonly string[];
  request: IncomingMessage;
  response: ClientReply;
  reply: Reply;
  open: OpenCall;
};

/** Claims that may be lost to others, one after another, before the store counts as unavailable. */
const LOST_CLAIMS_MAX = 5;

/**
 * Claims the key of a request, or answers it with the reply to the request that has the key.
 * @returns the claim, `replied` where the client has its reply or has left, or an error for it.
 */
export async function beginKeyed(relay: Relay, keyed: Keyed): Promise<KeyedCall | 'replied' | ApiError> {
  const { key, idempotencyKey, protocolHeaders, body, request } = keyed;
  const identity = identifyRequest(relay.pepper, {
    key: key.id,
    idempotencyKey,
    target: request.url ?? '',
    protocolHeaders,
    body,
  });
  try {
    return await claimOrRepeat(relay, keyed, identity);
  } catch (error) {
    if (!isStoreFault(error)) throw error;
    return new ApiError('store_unavailable');
  }
}

async function claimOrRepeat(
  relay: Relay,
  keyed: Keyed,
  identity: KeyIdentity,
): Promise<KeyedCall | 'replied' | ApiError> {
  const { idempotency } = relay;
  const fingerprint = identity.fingerprint.toString('hex');
  using repeat = new Repeat({ relay, ...keyed });
  for (let lost = 0; lost < LOST_CLAIMS_MAX;) {
    const running = idempotency.running(identity);
    const ended = running
      ? await join(running, fingerprint, repeat)
      : await claimOnce(relay, keyed, identity, repeat);
    if (ended === 'lost') lost++;
    else if (ended !== 'released') return ended;
    if (repeat.interruption !== null) return repeat.interruption;
  }
  return new ApiError('store_unavailable');
}

/** Waits for the reply to a request of this server. */
async function join(call: KeyedCall, fingerprint: string, repeat: Repeat): Promise<RepeatEnd> {
  const { request } = call.of;
  if (call.of.fingerprint !== fingerprint) return keyReused(request);
  if (call.isFull) return keyInUse(request);
  const leave = call.join();
  try {
    return await repeat.send(call.record, request);
  } finally {
    leave();
  }
}

/** @returns `released` where another look at the key is due, `lost` where the claim was lost meanwhile. */
async function claimOnce(
  relay: Relay,
  keyed: Keyed,
  identity: KeyIdentity,
  repeat: Repeat,
): Promise<KeyedCall | RepeatEnd | 'lost'> {
  const { idempotency } = relay;
  const { account } = keyed.key;
  const isFull = !(await idempotency.hasRoomForKey(account));
  // A repeat takes no room, and gets its reply.
  const claimed = isFull ? { state: await idempotency.find(identity) } : await claim(relay, keyed, identity);
  if ('call' in claimed) {
    if (repeat.interruption === null) return claimed.call;
    claimed.call.release();
    return repeat.interruption;
  }
  const answer = answerOf(claimed.state, identity.fingerprint.toString('hex'));
  switch (answer.kind) {
    case 'begin':
      return isFull ? new ApiError('too_many_idempotency_keys') : 'lost';
    case 'mismatch':
      return keyReused(answer.request);
    case 'no_reply':
      return noReply(answer.request);
    case 'unknown':
      return outcomeUnknown(answer.request);
    case 'replay': {
      const record = await idempotency.keptReply(account, answer.request);
      return record === null ? noReply(answer.request) : repeat.send(record, answer.request);
    }
    case 'join':
      return await waitElsewhere(relay, keyed, answer.request, repeat);
  }
}

function claim(relay: Relay, keyed: Keyed, identity: KeyIdentity): Promise<Claimed> {
  const { idempotency, readModel, instance } = relay;
  const { key, reply, attribution, open } = keyed;
  const of = {
    account: key.account,
    request: reply.requestId,
    instance: instance.appender.instance,
    keeps: readModel.keepsReplies(key),
    attribution,
    errorFormat: reply.errorFormat,
    open,
  };
  return idempotency.claim(identity, of, instance.appender.head);
}

/**
 * Waits for a request on another server, whose reply comes by way of the database: only where it is kept, and
 * whole. Also for one of this server that is about to be known here.
 */
async function waitElsewhere(
  { idempotency, readModel }: Relay,
  { key }: Keyed,
  request: string,
  repeat: Repeat,
): Promise<RepeatEnd> {
  const isFirst = !repeat.isElsewhere;
  if (!readModel.keepsReplies(key) && !isFirst) return keyInUse(request);
  if (idempotency.isFull(request)) return keyInUse(request);
  repeat.isElsewhere = true;
  await idempotency.whenEnded(request, isFirst, repeat.signal);
  const { interruption } = repeat;
  if (interruption === null) return 'released';
  return interruption instanceof ApiError && interruption.code === 'idempotency_key_in_use'
    ? keyInUse(request)
    : interruption;
}

import type { RelayedRoute, SubjectLimits } from '#db/limits/limits.ts';
import { admitBatch } from '#server/batches/admit-batch.ts';
import type { CallAttribution } from '#server/attribution/attribution.ts';
import type { BatchFacts } from '#server/batches/batch-facts.ts';
import { wireOf } from '#server/batches/batch-wire.ts';
import { CREATE_REPLY_MS, LOOK_FOR_BATCH_MS } from '#server/batches/bounds.ts';
import { readDescription } from '#server/batches/description.ts';
import { endLines } from '#server/batches/end-lines.ts';
import type { BatchPlan } from '#server/batches/plan-line.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import type { Relay } from '#server/relay/relay.ts';
import { unsentEnd } from '#server/relay/reply-usage.ts';
import { failureOf, readJsonReply } from '#server/stored/exchange.ts';
import type { OpenRequest, Stored } from '#server/stored/serve.ts';

/** A batch whose lines were authorized, and the request that creates it at its upstream. */
export type PlannedBatch = Pick<Stored, 'upstream' | 'pool'> & {
  request: OpenRequest;
  attribution: Readonly<CallAttribution>;
  plan: BatchPlan;
  subjects: readonly SubjectLimits[];
  minute: number;
  windowMs: number;
  endpoint: RelayedRoute;
  body: Buffer;
  headers: readonly string[];
  /** Null: its lines are in the request. */
  inputFile: string | null;
};

/** `refused`: by a limit, before its lines were accepted; `failed`: by the provider. */
export type Unsent = { kind: 'refused' | 'failed'; error: ApiError };

/**
 * Accepts all lines of a batch with their reservations, or none, and passes the request on.
 * @returns the provider's reply without credentials.
 */
export async function sendBatch(relay: Relay, planned: PlannedBatch): Promise<Buffer | Unsent> {
  const { request, attribution, plan, subjects, minute, windowMs, endpoint, upstream, pool } = planned;
  const { key, response } = request;
  const batch = replyOf(response).requestId;
  const facts: BatchFacts = {
    accepted: { ...shared(relay, request, attribution), batch, route: endpoint, admitted_minute: minute },
    prices: plan.prices,
    windowMs,
  };
  const row = {
    ...{ batch, account: key.account, key: key.id, input_file: planned.inputFile ?? '' },
    ...{ upstream: upstream.name, credential: pool.credential },
  };
  try {
    const { lines, amounts } = plan;
    const short = await admitBatch({ relay, batch: row, facts, subjects, lines, amounts });
    if (short) return { kind: 'refused', error: short };
  } catch (error) {
    // The lost reply may have been a commit: then its follower finds that the batch was not created.
    relay.batchStore.release(batch, null, LOOK_FOR_BATCH_MS).catch(() => {});
    throw error;
  }
  const sent = await send(relay, planned, facts, batch);
  return Buffer.isBuffer(sent) ? sent : { kind: 'failed', error: sent };
}

/** What the events of all lines have in common. */
function shared(
  { readModel }: Pick<Relay, 'readModel'>,
  { key }: OpenRequest,
  attribution: Readonly<CallAttribution>,
): Omit<BatchFacts['accepted'], 'batch' | 'route' | 'admitted_minute'> {
  const parents = readModel.charged.parentsOf(key.account);
  return {
    account: key.account,
    key: key.id,
    terms_position: readModel.termsPosition(key),
    ...(parents.length === 0 ? {} : { parents: [...parents] }),
    ...attribution,
  };
}

/**
 * Passes the request on. It isn't broken off when its client disconnects, since its lines are accepted. Where
 * it is not certain whether the provider has created the batch, its follower finds out.
 */
async function send(
  relay: Relay,
  { request: { key }, endpoint, body, headers, upstream, pool }: PlannedBatch,
  facts: BatchFacts,
  batch: string,
): Promise<Buffer | ApiError> {
  const { batchStore: store, instance } = relay;
  const wire = wireOf(endpoint);
  let reply: Buffer | ApiError;
  let isRejected = false;
  try {
    const signal = AbortSignal.timeout(CREATE_REPLY_MS);
    const sent = await pool.exchange({ method: 'POST', path: wire.path, headers, body, signal });
    isRejected = sent.status >= 400 && (sent.status < 500 || !wire.canBeFound);
    reply = await readJsonReply(sent, upstream, { holdBody: () => null });
  } catch (error) {
    reply = failureOf(error);
    // No request was sent.
    isRejected ||= reply.code === 'upstream_unreachable' && !wire.canBeFound;
  }
  const place = { upstream: upstream.name, credential: pool.credential };
  if (isRejected && reply instanceof ApiError) {
    const reason = reply.status < 500 ? 'upstream_rejected' : 'upstream_error';
    const end = unsentEnd(reason, reply.status);
    await endLines(
      { store, instance: instance.appender.instance },
      { batch, facts, ...place, ageMs: 0 },
      end,
    );
    return reply;
  }
  const described = reply instanceof ApiError ? null : readDescription(reply);
  if (described === null) {
    await store.release(batch, null, LOOK_FOR_BATCH_MS);
    return reply instanceof ApiError ? reply : new ApiError('upstream_error');
  }
  // Followed first: only then another server finds it without its client.
  await store.release(batch, described.id, 0);
  await relay.routeBack.keep({ account: key.account, kind: wire.kind, ...described, ...place });
  return reply;
}

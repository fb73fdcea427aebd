import { minuteOf } from '#db/limits/windows.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import { admitBatch } from '#server/batches/admit-batch.ts';
import type { BatchFacts } from '#server/batches/batch-facts.ts';
import {
  BATCH_BODY_BYTES_MAX,
  CREATE_REPLY_MS,
  LOOK_FOR_BATCH_MS,
  WINDOW_HOURS_MAX,
} from '#server/batches/bounds.ts';
import { readDescription } from '#server/batches/description.ts';
import { endLines } from '#server/batches/end-lines.ts';
import { BATCH_ROUTES, isBatchRoute } from '#server/batches/input-line.ts';
import { BatchPlan } from '#server/batches/plan-line.ts';
import { readInput } from '#server/batches/read-input.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import type { SubjectLimits } from '#db/limits/limits.ts';
import { attribute } from '#server/relay/handle.ts';
import type { Relay } from '#server/relay/relay.ts';
import { unsentEnd } from '#server/relay/reply-usage.ts';
import { checkMedia } from '#server/relay/reply.ts';
import type { CallAttribution } from '#server/attribution/attribution.ts';
import { failureOf, readJsonReply } from '#server/stored/exchange.ts';
import { findStored, type OpenRequest, sendReply, type Stored } from '#server/stored/serve.ts';
import { valueOf } from '#server/wire/json.ts';
import { readBody, releaseBody } from '#server/wire/read-body.ts';
import { scanRequest, type ScannedRequest } from '#server/wire/request-parser.ts';

const HOUR_MS = 3_600_000;

/** A request that creates a batch. */
type Asked = {
  fileId: string;
  endpoint: RelayedRoute;
  windowMs: number;
  body: Buffer;
  scanned: ScannedRequest;
};

/**
 * Creates a batch: reads its file where it is stored, authorizes each line, accepts all lines with their
 * reservations, and only then passes the request on.
 * @returns the error that the client is to be sent; null: it has its reply, or has disconnected.
 */
export async function createBatch(relay: Relay, request: OpenRequest): Promise<ApiError | null> {
  const { key, response, open } = request;
  const asked = await readAsked(request);
  if (asked === null || asked instanceof ApiError) return asked;
  const { endpoint, windowMs } = asked;
  const refuse = (refusal: ApiError): ApiError => {
    relay.rejections.note(key, { request: replyOf(response).requestId, route: endpoint }, refusal);
    return refusal;
  };
  const context = requestContextOf(request.request, endpoint, relay.trustedProxies);
  const forbidden = authorize(key, context, relay.readModel);
  if (forbidden) return refuse(forbidden);
  const attribution = await attribute(relay, key, request.request, { bytes: asked.body }, asked);
  if (attribution instanceof ApiError) return refuse(attribution);
  const file = await findStored(relay, { account: key.account, id: asked.fileId }, 'file');
  if (file === null) return new ApiError('file_not_found', { param: 'input_file_id' });

  const subjects = relay.readModel.limitsOf(key, attribution);
  const minute = minuteOf(relay.readModel.nowMs());
  const plan = new BatchPlan({ relay, key, upstream: file.upstream, endpoint, subjects, minute });
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const refusal = await readInput(file, plan, open, gone.signal);
  if (response.destroyed) return null;
  if (refusal) return refuse(refusal);

  const batch = replyOf(response).requestId;
  const facts: BatchFacts = {
    accepted: { ...shared(relay, request, attribution), batch, route: endpoint, admitted_minute: minute },
    prices: plan.prices,
    windowMs,
  };
  try {
    const short = await admit(relay, { request, file, subjects, plan, facts, batch });
    if (short) return refuse(short);
  } catch (error) {
    // The lost reply may have been a commit: then its follower finds that the batch was not created.
    relay.batchStore.release(batch, null, LOOK_FOR_BATCH_MS).catch(() => {});
    throw error;
  }
  return send(relay, { request, asked, file, facts, batch });
}

/** Reads the request's body. @returns null: the client has disconnected. */
async function readAsked({ request, response, open }: OpenRequest): Promise<Asked | ApiError | null> {
  const media = checkMedia(request.headers);
  if (media) return media;
  const hold = (bytes: number): ApiError | null => open.holdBody(bytes);
  const received = await readBody(request, response, { maxBytes: BATCH_BODY_BYTES_MAX, hold });
  if (received === null || received instanceof ApiError) return received;
  const body = Buffer.from(received.bytes);
  releaseBody(received);
  const scanned = scanRequest(body, ['input_file_id', 'endpoint', 'completion_window']);
  if (scanned instanceof ApiError) return scanned;
  const value = (name: string): unknown => {
    const span = scanned.members.get(name);
    return span && valueOf(body, span);
  };
  const fileId = value('input_file_id');
  if (typeof fileId !== 'string') return invalid('input_file_id', 'the id of a file that was uploaded');
  const endpoint = value('endpoint');
  if (!isBatchRoute(endpoint)) return invalid('endpoint', `one of ${BATCH_ROUTES.join(', ')}`);
  const window = value('completion_window');
  const [, number, unit] = /^(\d{1,3})([hd])$/.exec(String(window)) ?? [];
  const hours = Number(number) * (unit === 'd' ? 24 : 1);
  if (!(hours >= 1 && hours <= WINDOW_HOURS_MAX)) return invalid('completion_window', '"24h"');
  return { fileId, endpoint, windowMs: hours * HOUR_MS, body, scanned };
}

const invalid = (param: string, what: string): ApiError =>
  new ApiError('invalid_value', { message: `The field "${param}" must be ${what}.`, param });

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

type Admitting = {
  request: OpenRequest;
  file: Stored;
  subjects: readonly SubjectLimits[];
  plan: BatchPlan;
  facts: BatchFacts;
  batch: string;
};

function admit(
  relay: Relay,
  { request: { key }, file, subjects, plan, facts, batch }: Admitting,
): Promise<ApiError | null> {
  const row = {
    batch,
    account: key.account,
    key: key.id,
    upstream: file.upstream.name,
    credential: file.pool.credential,
    input_file: file.name.id,
  };
  return admitBatch({ relay, batch: row, facts, subjects, lines: plan.lines, amounts: plan.amounts });
}

type Sending = {
  request: OpenRequest;
  asked: Asked;
  file: Stored;
  facts: BatchFacts;
  batch: string;
};

/**
 * Passes the request on. It isn't broken off when its client disconnects, since its lines are accepted. Where
 * it is not certain whether the provider has created the batch, its follower finds out.
 */
async function send(
  relay: Relay,
  { request: { key, response }, asked, file, facts, batch }: Sending,
): Promise<ApiError | null> {
  const { batchStore: store, instance } = relay;
  const { upstream, pool } = file;
  const headers = ['content-type', 'application/json'];
  let reply: Buffer | ApiError;
  let isRejected = false;
  try {
    const signal = AbortSignal.timeout(CREATE_REPLY_MS);
    const sent = await pool.exchange({ method: 'POST', path: '/batches', headers, body: asked.body, signal });
    isRejected = sent.status >= 400 && sent.status < 500;
    reply = await readJsonReply(sent, upstream, { holdBody: () => null });
  } catch (error) {
    reply = failureOf(error);
  }
  if (isRejected && reply instanceof ApiError) {
    const { status } = reply;
    const end = unsentEnd('upstream_rejected', status);
    const place = { upstream: upstream.name, credential: pool.credential, ageMs: 0 };
    await endLines({ store, instance: instance.appender.instance }, { batch, facts, ...place }, end);
    return reply.status === 404 ? WITHOUT_BATCHES : reply;
  }
  const described = reply instanceof ApiError ? null : readDescription(reply);
  if (described === null) {
    await store.release(batch, null, LOOK_FOR_BATCH_MS);
    return reply instanceof ApiError ? reply : new ApiError('upstream_error');
  }
  const place = { upstream: upstream.name, credential: pool.credential };
  // Followed first: only then another server finds it without its client.
  await store.release(batch, described.id, 0);
  await relay.routeBack.keep({ account: key.account, kind: 'batch', ...described, ...place });
  if (!response.destroyed) sendReply(response, reply as Buffer);
  return null;
}

const WITHOUT_BATCHES = new ApiError('route_not_found', {
  message: "The upstream of the file's model has no batches of this endpoint. Use another model.",
});

import { minuteOf } from '#db/limits/windows.ts';
import type { RelayedRoute } from '#db/limits/limits.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import { BATCH_BODY_BYTES_MAX, WINDOW_HOURS_MAX } from '#server/batches/bounds.ts';
import { BATCH_ROUTES, FILE_LINES, isBatchRoute } from '#server/batches/input-line.ts';
import { BatchPlan } from '#server/batches/plan-line.ts';
import { readInput } from '#server/batches/read-input.ts';
import { sendBatch } from '#server/batches/send-batch.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import { attribute } from '#server/relay/handle.ts';
import type { Relay } from '#server/relay/relay.ts';
import { checkMedia } from '#server/relay/reply.ts';
import { findStored, type OpenRequest, sendReply } from '#server/stored/serve.ts';
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
  const { endpoint, windowMs, fileId } = asked;
  const refuse = (refusal: ApiError): ApiError => {
    relay.rejections.note(key, { request: replyOf(response).requestId, route: endpoint }, refusal);
    return refusal;
  };
  const context = requestContextOf(request.request, endpoint, relay.trustedProxies);
  const forbidden = authorize(key, context, relay.readModel);
  if (forbidden) return refuse(forbidden);
  const attribution = await attribute(relay, key, request.request, { bytes: asked.body }, asked);
  if (attribution instanceof ApiError) return refuse(attribution);
  const file = await findStored(relay, { account: key.account, id: fileId }, 'file');
  if (file === null) return new ApiError('file_not_found', { param: 'input_file_id' });

  const subjects = relay.readModel.limitsOf(key, attribution);
  const minute = minuteOf(relay.readModel.nowMs());
  const { upstream, pool } = file;
  const plan = new BatchPlan({ relay, key, upstream, endpoint, subjects, minute, errors: FILE_LINES });
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  const refusal = await readInput(file, plan, open, gone.signal);
  if (response.destroyed) return null;
  if (refusal) return refuse(refusal);

  const sent = await sendBatch(relay, {
    ...{ request, attribution, plan, subjects, minute, windowMs, upstream, pool },
    ...{ endpoint, body: asked.body, headers: ['content-type', 'application/json'], inputFile: fileId },
  });
  if (Buffer.isBuffer(sent)) {
    if (!response.destroyed) sendReply(response, sent);
    return null;
  }
  if (sent.kind === 'refused') return refuse(sent.error);
  return sent.error.status === 404 ? WITHOUT_BATCHES : sent.error;
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

const WITHOUT_BATCHES = new ApiError('route_not_found', {
  message: "The upstream of the file's model has no batches of this endpoint. Use another model.",
});

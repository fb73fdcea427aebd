import { setImmediate as nextTurn } from 'node:timers/promises';
import { minuteOf } from '#db/limits/windows.ts';
import { authorize } from '#server/access/authorize.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import { BATCH_LINES_MAX, LINE_MEMORY_BYTES, LINES_PER_TURN } from '#server/batches/bounds.ts';
import { holderOf } from '#server/batches/find-holder.ts';
import type { InputLine } from '#server/batches/input-line.ts';
import { elementsOf, readRequestLine, REQUEST_LINES } from '#server/batches/messages/request-lines.ts';
import { BatchPlan } from '#server/batches/plan-line.ts';
import { sendBatch } from '#server/batches/send-batch.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import { VERSION_HEADER } from '#server/providers/anthropic/request.ts';
import { attribute } from '#server/relay/handle.ts';
import type { Relay } from '#server/relay/relay.ts';
import { checkMedia } from '#server/relay/reply.ts';
import type { OpenRequest } from '#server/stored/serve.ts';
import { readBody, releaseBody } from '#server/wire/read-body.ts';
import { scanRequest, type ScannedRequest } from '#server/wire/request-parser.ts';

const ROUTE = '/v1/messages';
/** Anthropic's, without a choice. */
const WINDOW_MS = 24 * 3_600_000;

type Asked = { body: Buffer; scanned: ScannedRequest };

/**
 * Creates a message batch: authorizes each of its requests, accepts all with their reservations, and only
 * then passes the request on.
 * @returns the provider's description; its error; null: the client has disconnected.
 */
export async function createMessageBatch(
  relay: Relay,
  request: OpenRequest,
): Promise<Buffer | ApiError | null> {
  const { key, response } = request;
  const asked = await readAsked(relay, request);
  if (asked === null || asked instanceof ApiError) return asked;
  const { body } = asked;
  const refuse = (refusal: ApiError): ApiError => {
    relay.rejections.note(key, { request: replyOf(response).requestId, route: ROUTE }, refusal);
    return refusal;
  };
  const context = requestContextOf(request.request, ROUTE, relay.trustedProxies);
  const forbidden = authorize(key, context, relay.readModel);
  if (forbidden) return refuse(forbidden);
  const attribution = await attribute(relay, key, request.request, { bytes: body }, asked);
  if (attribution instanceof ApiError) return refuse(attribution);

  const first = firstLine(asked);
  if (first instanceof ApiError) return refuse(first);
  const holder = holderOf(relay, key, first);
  if (holder instanceof ApiError) return refuse(REQUEST_LINES.from(1, holder));
  const { upstream } = holder.target;
  const { pool } = holder;
  const subjects = relay.readModel.limitsOf(key, attribution);
  const minute = minuteOf(relay.readModel.nowMs());
  const options = { relay, key, upstream, endpoint: ROUTE, subjects, minute, errors: REQUEST_LINES } as const;
  const plan = new BatchPlan(options);
  const refusal = await planAll(plan, asked, request);
  if (response.destroyed) return null;
  if (refusal) return refuse(refusal);

  const sent = await sendBatch(relay, {
    ...{ request, attribution, plan, subjects, minute, windowMs: WINDOW_MS, upstream, pool },
    ...{ endpoint: ROUTE, body, headers: headersOf(request), inputFile: null },
  });
  if (Buffer.isBuffer(sent)) return sent;
  return sent.kind === 'refused' ? refuse(sent.error) : sent.error;
}

/** Reads the request's body. @returns null: the client has disconnected. */
async function readAsked(
  { maxBodyBytes }: Pick<Relay, 'maxBodyBytes'>,
  { request, response, open }: OpenRequest,
): Promise<Asked | ApiError | null> {
  const media = checkMedia(request.headers);
  if (media) return media;
  const hold = (bytes: number): ApiError | null => open.holdBody(bytes);
  const received = await readBody(request, response, { maxBytes: maxBodyBytes, hold });
  if (received === null || received instanceof ApiError) return received;
  const body = Buffer.from(received.bytes);
  releaseBody(received);
  const scanned = scanRequest(body, ['requests']);
  return scanned instanceof ApiError ? scanned : { body, scanned };
}

const requestsIn = ({ body, scanned }: Asked): Iterable<Buffer> => {
  const span = scanned.members.get('requests');
  return span ? elementsOf(body, span) : [];
};

function firstLine(asked: Asked): InputLine | ApiError {
  for (const bytes of requestsIn(asked)) return readRequestLine(bytes, 1);
  return new ApiError('invalid_value', {
    message: 'The field "requests" must be a list of requests, each with "custom_id" and "params".',
    param: 'requests',
  });
}

async function planAll(
  plan: BatchPlan,
  asked: Asked,
  { open, response }: Pick<OpenRequest, 'open' | 'response'>,
): Promise<ApiError | null> {
  let number = 0;
  for (const bytes of requestsIn(asked)) {
    number++;
    if (number > BATCH_LINES_MAX) return TOO_MANY;
    const line = readRequestLine(bytes, number);
    const refusal = line instanceof ApiError ? line : plan.addLine(line, number);
    const full = refusal ?? open.holdBody(asked.body.length + number * LINE_MEMORY_BYTES);
    if (full) return full;
    if (number % LINES_PER_TURN === 0) await nextTurn();
    if (response.destroyed) return null;
  }
  return null;
}

const TOO_MANY = new ApiError('request_too_large', {
  message: `The batch has more than ${BATCH_LINES_MAX} requests. Split it into several batches.`,
  param: 'requests',
});

/** The version and the beta features that the client asks for. */
function headersOf({ request: { headers } }: OpenRequest): string[] {
  const { 'anthropic-version': version, 'anthropic-beta': beta } = headers;
  return [
    ...['content-type', 'application/json'],
    ...(typeof version === 'string' ? ['anthropic-version', version] : VERSION_HEADER),
    ...(typeof beta === 'string' ? ['anthropic-beta', beta] : []),
  ];
}

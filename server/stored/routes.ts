import express, { type Router } from 'express';
import { requestContextOf } from '#server/access/request-context.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import type { Relay } from '#server/relay/relay.ts';
import { exchange } from '#server/stored/exchange.ts';
import { StoredStream } from '#server/stored/stored-stream.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import {
  findStored,
  type OpenRequest,
  passedQuery,
  sendReply,
  serveStored,
  type Stored,
} from '#server/stored/serve.ts';

/**
 * `GET` and `DELETE /v1/responses/{id}`, `GET …/input_items` and `POST …/cancel`: stored responses, from the
 * upstream and with the credential that hold them. These requests are not in the log and are charged nothing:
 * they run no model. Each counts as a concurrent request of its key and account, and holds its reply in their
 * memory.
 */

const RESPONSES = '/v1/responses';
const RESPONSE = `${RESPONSES}/:id`;
const CANCEL = `${RESPONSE}/cancel`;
const INPUT_ITEMS = `${RESPONSE}/input_items`;
/** The routes with the methods that each takes. */
export const STORED_ROUTES = [
  [RESPONSE, 'GET, HEAD, DELETE, OPTIONS'],
  [INPUT_ITEMS, 'GET, HEAD, OPTIONS'],
  [CANCEL, 'POST, OPTIONS'],
] as const;

/** Parameters that are passed on; others are ignored, as clients of other gateways send theirs. */
const PARAMETERS: ReadonlySet<string> = new Set([
  'stream',
  'starting_after',
  'include',
  'include[]',
  'include_obfuscation',
  'after',
  'before',
  'limit',
  'order',
]);

const UNSETTLED = new ApiError('invalid_value', {
  message:
    'The response is in progress, or its usage is not recorded yet. ' +
    'Cancel it, or wait for its end, and delete it some seconds later.',
});

/** The error of an id that the account has no response of; another account's is one of these. */
const notFound = (id: string): ApiError =>
  new ApiError('response_not_found', {
    message: isStoredId(id)
      ? `Response with id '${id}' not found. It may be deleted, older than 30 days, or of another account.`
      : 'No response has an id like this.',
  });

export function storedRoutes(relay: Relay): Router {
  const routes = express.Router({ caseSensitive: true });

  /** Serves a request for a stored response. */
  const serve = (work: (stored: Stored, open: OpenRequest) => Promise<ApiError | null>) =>
    serveStored(relay, RESPONSES, async (open) => {
      const name = { account: open.key.account, id: String(open.request.params['id']) };
      const stored = await findStored(relay, name, 'response');
      return stored === null ? notFound(name.id) : work(stored, open);
    });

  const pass = (suffix: string, method: 'GET' | 'POST' | 'DELETE') =>
    serve(async ({ name, upstream, pool }, { request, response, open }) => {
      // Deleted, it could not be settled.
      if (method === 'DELETE' && (await relay.backgroundStore.has(name))) return UNSETTLED;
      const query = passedQuery(request.url, PARAMETERS);
      const path = `/responses/${encodeURIComponent(name.id)}${suffix}${query}`;
      const found = await exchange({ upstream, pool, open, response }, { method, path });
      if (found === null) return null;
      const isGone = found instanceof ApiError && found.status === 404;
      if (isGone || (method === 'DELETE' && !(found instanceof ApiError))) await relay.routeBack.forget(name);
      if (method === 'POST') await relay.backgroundStore.hasten(name);
      if (found instanceof ApiError) return isGone ? notFound(name.id) : found;
      sendReply(response, found);
      return null;
    });

  const passWhole = pass('', 'GET');
  const passStream = serve(async ({ name, upstream, pool }, { key, request, response }) => {
    const context = requestContextOf(request, RESPONSES, relay.trustedProxies);
    const stream = new StoredStream({
      ...{ relay, key, context, upstream, pool, response },
      reply: replyOf(response),
    });
    const query = passedQuery(request.url, PARAMETERS);
    const refusal = await stream.run(`/responses/${encodeURIComponent(name.id)}${query}`);
    return refusal?.status === 404 ? notFound(name.id) : refusal;
  });

  routes.get(RESPONSE, (request, response) =>
    (request.query['stream'] === 'true' ? passStream : passWhole)(request, response),
  );
  routes.get(INPUT_ITEMS, pass('/input_items', 'GET'));
  routes.delete(RESPONSE, pass('', 'DELETE'));
  routes.post(CANCEL, pass('/cancel', 'POST'));
  return routes;
}

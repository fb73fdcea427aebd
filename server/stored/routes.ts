import express, { type Request, type Response, type Router } from 'express';
import type { Key } from '#db/fold/key.ts';
import type { StoredName } from '#db/stored/places.ts';
import { requestContextOf } from '#server/access/request-context.ts';
import { identify } from '#server/access/identify.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import { replyOf, sendApiError } from '#server/http/respond.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import type { Relay } from '#server/relay/relay.ts';
import { exchange } from '#server/stored/exchange.ts';
import { StoredStream } from '#server/stored/stored-stream.ts';
import { isResponseId } from '#server/stored/route-back.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

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

/** A stored response, and what holds it. */
type Stored = { key: Key; name: StoredName; upstream: Upstream; pool: UpstreamConnectionPool };

/** The error of an id that the account has no response of; another account's is one of these. */
const notFound = (id: string): ApiError =>
  new ApiError('response_not_found', {
    message: isResponseId(id)
      ? `Response with id '${id}' not found. It may be deleted, older than 30 days, or of another account.`
      : 'No response has an id like this.',
  });

export function storedRoutes(relay: Relay): Router {
  const routes = express.Router({ caseSensitive: true });

  const find = async (key: Key, id: string): Promise<Stored | ApiError> => {
    const name = { account: key.account, id };
    const place = isResponseId(id) ? await relay.routeBack.find(name) : null;
    const upstream = place === null ? undefined : relay.upstreams.get(place.upstream);
    const pool = upstream?.pools.find(({ credential }) => credential === place?.credential);
    return upstream && pool ? { key, name, upstream, pool } : notFound(id);
  };

  /** Serves a request for a stored response, from its key to its reply. */
  const serve =
    (work: (stored: Stored, request: Request, response: Response, open: OpenCall) => Promise<void>) =>
    async (request: Request, response: Response): Promise<void> => {
      const refuse = (refusal: ApiError): void => sendApiError(request, response, refusal);
      if (relay.phase === 'stopped') return refuse(new ApiError('shutting_down'));
      if (relay.openCalls.isFull) return refuse(new ApiError('relay_overloaded'));
      const key = identify(relay, request, RESPONSES);
      if (key instanceof ApiError) return refuse(key);
      const open = relay.openCalls.open(key, relay.readModel.limitsOf(key));
      if (open instanceof ApiError) return refuse(open);
      try {
        const stored = await find(key, String(request.params['id']));
        if (stored instanceof ApiError) refuse(stored);
        else await work(stored, request, response, open);
      } catch (error) {
        if (!isStoreFault(error)) throw error;
        refuse(new ApiError('store_unavailable'));
      } finally {
        open.close();
      }
    };

  const pass = (suffix: string, method: 'GET' | 'POST' | 'DELETE') =>
    serve(async ({ name, upstream, pool }, request, response, open) => {
      const refuse = (refusal: ApiError): void => sendApiError(request, response, refusal);
      // Deleted, it could not be settled.
      if (method === 'DELETE' && (await relay.backgroundStore.has(name))) return refuse(UNSETTLED);
      const path = `/responses/${encodeURIComponent(name.id)}${suffix}${passedQuery(request.url)}`;
      const found = await exchange({ upstream, pool, open, response }, { method, path });
      if (found === null) return;
      const isGone = found instanceof ApiError && found.status === 404;
      if (isGone || (method === 'DELETE' && !(found instanceof ApiError))) await relay.routeBack.forget(name);
      if (method === 'POST') await relay.backgroundStore.hasten(name);
      if (found instanceof ApiError) refuse(isGone ? notFound(name.id) : found);
      else sendReply(response, found);
    });

  const passWhole = pass('', 'GET');
  const passStream = serve(async ({ name, upstream, pool, key }, request, response) => {
    const context = requestContextOf(request, RESPONSES, relay.trustedProxies);
    const stream = new StoredStream({
      ...{ relay, key, context, upstream, pool, response },
      reply: replyOf(response),
    });
    const refusal = await stream.run(`/responses/${encodeURIComponent(name.id)}${passedQuery(request.url)}`);
    if (refusal) sendApiError(request, response, refusal.status === 404 ? notFound(name.id) : refusal);
  });

  routes.get(RESPONSE, (request, response) =>
    (request.query['stream'] === 'true' ? passStream : passWhole)(request, response),
  );
  routes.get(INPUT_ITEMS, pass('/input_items', 'GET'));
  routes.delete(RESPONSE, pass('', 'DELETE'));
  routes.post(CANCEL, pass('/cancel', 'POST'));
  return routes;
}

/** The parameters that the upstream is to have, as a query. */
function passedQuery(url: string): string {
  const at = url.indexOf('?');
  const given = [...new URLSearchParams(at < 0 ? '' : url.slice(at + 1))];
  const passed = new URLSearchParams(given.filter(([name]) => PARAMETERS.has(name))).toString();
  return passed === '' ? '' : `?${passed}`;
}

function sendReply(response: Response, bytes: Buffer): void {
  const { requestId, extraHeaders } = replyOf(response);
  response.writeHead(200, [
    'content-type',
    'application/json',
    'content-length',
    String(bytes.length),
    'x-request-id',
    requestId,
    ...extraHeaders,
  ]);
  response.end(bytes);
}

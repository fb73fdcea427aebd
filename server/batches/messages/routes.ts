import express, { type Request, type Router } from 'express';
import { readSecretFromEither } from '#server/access/authenticate.ts';
import { wireOf } from '#server/batches/batch-wire.ts';
import { parseObject } from '#server/batches/description.ts';
import { downloadLines } from '#server/batches/download.ts';
import { createMessageBatch } from '#server/batches/messages/create.ts';
import { listMessageBatches } from '#server/batches/messages/list.ts';
import { readMessageBatchState, withOwnResults } from '#server/batches/messages/state.ts';
import { noteState } from '#server/batches/note-state.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { sendJson } from '#server/http/respond.ts';
import { MESSAGES } from '#server/relay/routes.ts';
import type { Relay } from '#server/relay/relay.ts';
import { exchange } from '#server/stored/exchange.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { findStored, type OpenRequest, sendReply, serveStored, type Stored } from '#server/stored/serve.ts';

/**
 * Anthropic's Message Batches: an account's batches at the upstream and with the credential that have them.
 * Each request of a batch is a call of its own in the log; requests for a batch are not.
 */

const BATCHES = `${MESSAGES.route}/batches`;
const BATCH = `${BATCHES}/:id`;
const CANCEL = `${BATCH}/cancel`;
const RESULTS = `${BATCH}/results`;
/** The routes with the methods that each takes. */
export const MESSAGE_BATCH_ROUTES = [
  [BATCHES, 'GET, HEAD, POST, OPTIONS'],
  [BATCH, 'GET, HEAD, DELETE, OPTIONS'],
  [CANCEL, 'POST, OPTIONS'],
  [RESULTS, 'GET, HEAD, OPTIONS'],
] as const;

/** The permission that a key needs, besides that for messages. */
const PERMISSION = '/v1/batches';
const WIRE = wireOf(MESSAGES.route);

/** The error of an id that the account has no batch of; another account's is one of these. */
const notFound = (id: string): ApiError =>
  new ApiError('batch_not_found', {
    message: isStoredId(id)
      ? `No message batch found with id '${id}'. It may be older than 30 days, or of another account.`
      : 'No message batch has an id like this.',
  });

export function messageBatchRoutes(relay: Relay): Router {
  const routes = express.Router({ caseSensitive: true });
  const serve = (work: (open: OpenRequest) => Promise<ApiError | null>) =>
    serveStored(relay, PERMISSION, work, (headers) => readSecretFromEither(headers, 'x-api-key'));

  /** Serves requests for one batch of the account. */
  const serveOne = (work: (open: OpenRequest, stored: Stored) => Promise<ApiError | null>) =>
    serve(async (open) => {
      const name = { account: open.key.account, id: String(open.request.params['id']) };
      const stored = await findStored(relay, name, WIRE.kind);
      const refusal = stored === null ? notFound(name.id) : await work(open, stored);
      return refusal?.status === 404 ? notFound(name.id) : refusal;
    });

  const pass = (method: 'GET' | 'POST' | 'DELETE', suffix: string) =>
    serveOne(async ({ request, response, open }, { name, upstream, pool }) => {
      if (method === 'DELETE' && (await relay.batchStore.isOpen(name))) return IN_PROGRESS;
      const path = `${WIRE.path}/${encodeURIComponent(name.id)}${suffix}`;
      const { headers } = WIRE;
      const found = await exchange({ upstream, pool, open, response }, { method, path, headers });
      if (found === null || found instanceof ApiError) return found;
      if (method === 'DELETE') await relay.routeBack.forget(name);
      const state = readMessageBatchState(found);
      const { kind } = WIRE;
      const held = { ...name, kind, upstream: upstream.name, credential: pool.credential };
      if (state !== null) await noteState(relay, held, state);
      if (method === 'POST' || state?.ended != null) await relay.batchStore.hasten(name);
      sendReply(response, ownReply(request, found));
      return null;
    });

  routes.post(
    BATCHES,
    serve(async (open) => {
      const reply = await createMessageBatch(relay, open);
      if (!Buffer.isBuffer(reply)) return reply;
      if (!open.response.destroyed) sendReply(open.response, ownReply(open.request, reply));
      return null;
    }),
  );
  routes.get(
    BATCHES,
    serve(async (open) => {
      const page = await listMessageBatches(relay, open);
      if (page instanceof ApiError) return page;
      const data = page.data.map((each) => withOwnResults(each, originOf(open.request)));
      sendJson(open.response, 200, { ...page, data });
      return null;
    }),
  );
  routes.get(BATCH, pass('GET', ''));
  routes.delete(BATCH, pass('DELETE', ''));
  routes.post(CANCEL, pass('POST', '/cancel'));
  routes.get(
    RESULTS,
    serveOne((open, stored) => {
      const path = `${WIRE.path}/${encodeURIComponent(stored.name.id)}/results`;
      return downloadLines(stored, open, { path, headers: WIRE.headers, type: 'application/x-jsonl' });
    }),
  );
  return routes;
}

const IN_PROGRESS = new ApiError('invalid_value', {
  message: 'The batch is in progress, or its requests are not settled yet. Delete it when it has ended.',
});

/** A description with the address of the results at the relay. */
function ownReply(request: Request, bytes: Buffer): Buffer {
  const object = parseObject(bytes);
  if (object === null || typeof object['results_url'] !== 'string') return bytes;
  return Buffer.from(JSON.stringify(withOwnResults(object, originOf(request))));
}

/** The address that the client has sent its request to. */
function originOf({ headers: { host = '' }, socket }: Request): string {
  return `${'encrypted' in socket ? 'https' : 'http'}://${host}`;
}

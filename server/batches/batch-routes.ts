import express, { type Router } from 'express';
import { createBatch } from '#server/batches/create-batch.ts';
import { readBatchState } from '#server/batches/judge-batch.ts';
import { answerList } from '#server/batches/list.ts';
import { noteState } from '#server/batches/note-state.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Relay } from '#server/relay/relay.ts';
import { exchange } from '#server/stored/exchange.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { findStored, sendReply, serveStored } from '#server/stored/serve.ts';

/**
 * OpenAI's Batch API: an account's batches at the upstream and with the credential that hold their files. The
 * lines of a batch are calls of their own in the log; requests for a batch are not.
 */

const BATCHES = '/v1/batches';
const BATCH = `${BATCHES}/:id`;
const CANCEL = `${BATCH}/cancel`;
/** The routes with the methods that each takes. */
export const BATCH_API_ROUTES = [
  [BATCHES, 'GET, HEAD, POST, OPTIONS'],
  [BATCH, 'GET, HEAD, OPTIONS'],
  [CANCEL, 'POST, OPTIONS'],
] as const;

/** The error of an id that the account has no batch of; another account's is one of these. */
const notFound = (id: string): ApiError =>
  new ApiError('batch_not_found', {
    message: isStoredId(id)
      ? `No batch found with id '${id}'. It may be older than 30 days, or of another account.`
      : 'No batch has an id like this.',
  });

export function batchRoutes(relay: Relay): Router {
  const routes = express.Router({ caseSensitive: true });

  const pass = (method: 'GET' | 'POST', suffix: string) =>
    serveStored(relay, BATCHES, async ({ key, request, response, open }) => {
      const name = { account: key.account, id: String(request.params['id']) };
      const stored = await findStored(relay, name, 'batch');
      if (stored === null) return notFound(name.id);
      const path = `/batches/${encodeURIComponent(name.id)}${suffix}`;
      const { upstream, pool } = stored;
      const found = await exchange({ upstream, pool, open, response }, { method, path });
      if (found === null) return null;
      if (found instanceof ApiError) return found.status === 404 ? notFound(name.id) : found;
      const state = readBatchState(found);
      const held = { ...name, kind: 'batch', upstream: upstream.name, credential: pool.credential } as const;
      if (state !== null) await noteState(relay, held, state);
      if (method === 'POST' || state?.ended != null) await relay.batchStore.hasten(name);
      sendReply(response, found);
      return null;
    });

  routes.post(
    BATCHES,
    serveStored(relay, BATCHES, (open) => createBatch(relay, open)),
  );
  routes.get(
    BATCHES,
    serveStored(relay, BATCHES, (open) => answerList(relay, 'batch', open)),
  );
  routes.get(BATCH, pass('GET', ''));
  routes.post(CANCEL, pass('POST', '/cancel'));
  return routes;
}

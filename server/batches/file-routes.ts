import express, { type Router } from 'express';
import { downloadFile } from '#server/batches/download.ts';
import { answerList } from '#server/batches/list.ts';
import { uploadFile } from '#server/batches/upload.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { Relay } from '#server/relay/relay.ts';
import { exchange } from '#server/stored/exchange.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import { findStored, type OpenRequest, sendReply, serveStored, type Stored } from '#server/stored/serve.ts';

/**
 * OpenAI's Files API, for the input and output of batches: an account's files at the upstream and with the
 * credential that hold them. These requests are not in the log and are charged nothing.
 */

const FILES = '/v1/files';
const FILE = `${FILES}/:id`;
const CONTENT = `${FILE}/content`;
/** The routes with the methods that each takes. */
export const FILE_ROUTES = [
  [FILES, 'GET, HEAD, POST, OPTIONS'],
  [FILE, 'GET, HEAD, DELETE, OPTIONS'],
  [CONTENT, 'GET, HEAD, OPTIONS'],
] as const;

const IN_USE = new ApiError('invalid_value', {
  message:
    'A batch that is in progress, or whose usage is not recorded yet, has this file. ' +
    'Cancel it, or wait for its end, and delete the file some seconds later.',
});

/** The error of an id that the account has no file of; another account's is one of these. */
const notFound = (id: string): ApiError =>
  new ApiError('file_not_found', {
    message: isStoredId(id)
      ? `No such File object: ${id}. It may be deleted, older than 30 days, or of another account.`
      : 'No file has an id like this.',
  });

export function fileRoutes(relay: Relay): Router {
  const routes = express.Router({ caseSensitive: true });

  /** Serves a request for a file. */
  const serve = (work: (stored: Stored, open: OpenRequest) => Promise<ApiError | null>) =>
    serveStored(relay, FILES, async (open) => {
      const name = { account: open.key.account, id: String(open.request.params['id']) };
      const stored = await findStored(relay, name, 'file');
      if (stored === null) return notFound(name.id);
      const refusal = await work(stored, open);
      if (refusal?.status !== 404) return refusal;
      await relay.routeBack.forget(name);
      return notFound(name.id);
    });

  const pass = (method: 'GET' | 'DELETE') =>
    serve(async ({ name, upstream, pool }, { response, open }) => {
      // Without its output a batch could not be settled.
      if (method === 'DELETE' && (await relay.batchStore.hasFile(name))) return IN_USE;
      const path = `/files/${encodeURIComponent(name.id)}`;
      const found = await exchange({ upstream, pool, open, response }, { method, path });
      if (found === null || found instanceof ApiError) return found;
      if (method === 'DELETE') await relay.routeBack.forget(name);
      sendReply(response, found);
      return null;
    });

  routes.post(
    FILES,
    serveStored(relay, FILES, (open) => uploadFile(relay, open)),
  );
  routes.get(
    FILES,
    serveStored(relay, FILES, (open) => answerList(relay, 'file', open)),
  );
  routes.get(FILE, pass('GET'));
  routes.delete(FILE, pass('DELETE'));
  routes.get(CONTENT, serve(downloadFile));
  return routes;
}

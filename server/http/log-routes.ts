import express, { type Request, type Response, type Router } from 'express';
import { z } from 'zod';
import { withCosignatures } from '#db/tlog/checkpoint-store.ts';
import { sendApiError, sendBytes, sendJson } from '#server/http/respond.ts';
import { readQuery } from '#server/read/query.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { LogProofs } from '#server/http/log-proofs.ts';
import type { AddressSet } from '#server/access/networks.ts';
import { KeyedSemaphore } from '#server/control/keyed-semaphore.ts';
import { clientAddress } from '#server/access/request-context.ts';
import { LOG_READERS_MAX, LOG_READS_PER_ADDRESS_MAX, COSIGNATURES_BYTES_MAX } from '#server/http/bounds.ts';

/**
 * The routes of the log. The public ones need no key, since witnesses and holders of receipts have none, and
 * they reveal no content of an event. Entry bundles are the content, so they need an auditor's session.
 */

const Size = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const Consistency = z.strictObject({ from: Size, to: Size });
const Inclusion = z.strictObject({ position: Size.min(1), size: Size.min(1) });
const Nothing = z.strictObject({});

/** Far below the ten seconds between checkpoints. */
const BRIEFLY = 'public, max-age=2';
/** A proof between two sizes never changes. */
const FOREVER = 'public, max-age=31536000, immutable';
const TILE = /^\/log\/tile\/([0-5])\/((?:x\d{3}\/)*\d{3})(?:\.p\/([1-9]\d{0,2}))?$/;
const ENTRIES = /^\/log\/tile\/entries\/((?:x\d{3}\/)*\d{3})(?:\.p\/([1-9]\d{0,2}))?$/;
const TILE_HASHES = 256;
/** Events are for auditors, and no cache between them and us may keep them. */
const NEVER = 'no-store';

/** Returns an error, or sends the reply and returns null. */
type Answer = (request: Request, response: Response) => Promise<ApiError | null>;

/** @param mayRead whether a request may read events; it records that they are read. */
export function logRoutes(
  proofs: LogProofs,
  trustedProxies: AddressSet | null,
  mayRead: (request: Request) => Promise<ApiError | null>,
): Router {
  const routes = express.Router({ caseSensitive: true });
  const places = new KeyedSemaphore();

  /**
   * Limits concurrent reads per address and in total, so that no client takes all connections of the
   * dashboard.
   */
  async function answer(request: Request, response: Response, work: Answer): Promise<void> {
    const address = clientAddress(
      request.socket.remoteAddress ?? '',
      request.headers['x-forwarded-for'],
      trustedProxies,
    );
    const leave = places.acquire(`address ${address}`, LOG_READS_PER_ADDRESS_MAX);
    if (leave === null)
      return sendApiError(
        request,
        response,
        new ApiError('rate_limit_exceeded', {
          message:
            `Your address has ${LOG_READS_PER_ADDRESS_MAX} concurrent requests to the log, the maximum. ` +
            'Wait for a reply before the next one.',
        }),
      );
    const leaveAll = places.acquire('all', LOG_READERS_MAX);
    try {
      const refusal = leaveAll === null ? new ApiError('relay_overloaded') : await work(request, response);
      if (refusal) sendApiError(request, response, refusal);
    } finally {
      leaveAll?.();
      leave();
    }
  }
  const get = (path: string | RegExp, work: Answer): void =>
    void routes.get(path, (request, response) => answer(request, response, work));

  get('/log/checkpoint', async (request, response) => {
    const query = readQuery(Nothing, request.url);
    const head = query instanceof ApiError ? query : await proofs.head();
    if (head instanceof ApiError) return head;
    // A large value shows that no new checkpoints are being signed.
    response.setHeader('x-waiting-ms', String(head.waitingMs));
    return sendText(response, withCosignatures(head), BRIEFLY);
  });

  get('/log/keys', async (_request, response) => {
    const keys = await proofs.keys();
    return keys instanceof ApiError ? keys : sendText(response, linesOf(keys), BRIEFLY);
  });

  get('/log/consistency', async (request, response) => {
    const query = readQuery(Consistency, request.url);
    const hashes = query instanceof ApiError ? query : await proofs.consistency(query.from, query.to);
    return hashes instanceof ApiError ? hashes : sendText(response, linesOf(hashes), FOREVER);
  });

  get('/log/inclusion', async (request, response) => {
    const query = readQuery(Inclusion, request.url);
    const proof = query instanceof ApiError ? query : await proofs.inclusion(query.position, query.size);
    if (proof instanceof ApiError) return proof;
    response.setHeader('cache-control', FOREVER);
    sendJson(response, 200, proof);
    return null;
  });

  get(ENTRIES, async (request, response) => {
    const [, path = '', width] = ENTRIES.exec(request.path) ?? [];
    const count = Number(width ?? TILE_HASHES);
    if (count > TILE_HASHES) return new ApiError('route_not_found');
    const refusal = await mayRead(request);
    if (refusal) return refusal;
    const bundle = await proofs.entries(numberOf(path), count);
    return bundle instanceof ApiError
      ? bundle
      : sendBytes(response, bundle, 'application/octet-stream', NEVER);
  });

  get(TILE, async (request, response) => {
    const [, level, path = '', width] = TILE.exec(request.path) ?? [];
    const hashes = Number(width ?? TILE_HASHES);
    if (hashes > TILE_HASHES) return new ApiError('route_not_found');
    const tile = await proofs.tile(Number(level), numberOf(path), hashes);
    return tile instanceof ApiError ? tile : sendBytes(response, tile, 'application/octet-stream', FOREVER);
  });

  const readBody = express.text({ type: () => true, limit: COSIGNATURES_BYTES_MAX, inflate: false });
  routes.post('/log/cosignatures', (request, response) =>
    answer(request, response, async () => {
      const failed = await new Promise<unknown>((resolve) => readBody(request, response, resolve));
      if (failed)
        return new ApiError(
          (failed as { status?: number }).status === 413 ? 'request_too_large' : 'bad_request',
        );
      const refusal = await proofs.addCosignatures(typeof request.body === 'string' ? request.body : '');
      if (refusal) return refusal;
      sendJson(response, 200, { object: 'cosignatures', taken: true });
      return null;
    }),
  );

  for (const [path, allow] of [
    [/^\/log\/(checkpoint|keys|consistency|inclusion)$/, 'GET, HEAD'],
    [TILE, 'GET, HEAD'],
    [ENTRIES, 'GET, HEAD'],
    ['/log/cosignatures', 'POST'],
  ] as const) {
    routes.all(path, (request, response) => {
      response.setHeader('allow', allow);
      sendApiError(
        request,
        response,
        new ApiError('method_not_allowed', { message: `This route takes ${allow}.` }),
      );
    });
  }
  return routes;
}

/** The number of a tile from its path: `x001/x234/067` is 1,234,067. */
const numberOf = (path: string): number => Number(path.replace(/[x/]/g, ''));

const linesOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join('');

const sendText = (response: Response, text: string, keep: string): null =>
  sendBytes(response, Buffer.from(text), 'text/plain; charset=utf-8', keep);

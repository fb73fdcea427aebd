import type { Request, Response } from 'express';
import type { Key } from '#db/fold/key.ts';
import type { Route } from '#db/limits/limits.ts';
import type { StoredKind, StoredName } from '#db/stored/places.ts';
import type { readBearerSecret } from '#server/access/authenticate.ts';
import { identify } from '#server/access/identify.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { isStoreFault } from '#server/errors/store-fault.ts';
import { replyOf, sendApiError } from '#server/http/respond.ts';
import type { OpenCall } from '#server/limits/open-calls.ts';
import type { Relay } from '#server/relay/relay.ts';
import { isStoredId } from '#server/stored/route-back.ts';
import type { UpstreamConnectionPool } from '#server/upstreams/connection-pool.ts';
import type { Upstream } from '#server/upstreams/upstream.ts';

/** A request for stored objects, from a key that may use its route. */
export type OpenRequest = { key: Key; request: Request; response: Response; open: OpenCall };

/** A stored object, and what holds it. */
export type Stored = { name: StoredName; upstream: Upstream; pool: UpstreamConnectionPool };

/**
 * Serves requests for stored objects, from their key to their reply: each counts as a concurrent request of
 * its key and account, and its buffered bytes count there too.
 * @param work returns the error that the client is to be sent; null: it has its reply, or has disconnected.
 * @param read extracts the key's secret from the headers; by default from `authorization` alone.
 */
export const serveStored =
  (
    relay: Relay,
    route: Route,
    work: (open: OpenRequest) => Promise<ApiError | null>,
    read?: typeof readBearerSecret,
  ) =>
  async (request: Request, response: Response): Promise<void> => {
    const refuse = (refusal: ApiError): void => sendApiError(request, response, refusal);
    if (relay.phase === 'stopped') return refuse(new ApiError('shutting_down'));
    if (relay.openCalls.isFull) return refuse(new ApiError('relay_overloaded'));
    const key = identify(relay, request, route, read);
    if (key instanceof ApiError) return refuse(key);
    const open = relay.openCalls.open(key, relay.readModel.limitsOf(key));
    if (open instanceof ApiError) return refuse(open);
    try {
      const refusal = await work({ key, request, response, open });
      if (refusal) refuse(refusal);
    } catch (error) {
      if (!isStoreFault(error)) throw error;
      refuse(new ApiError('store_unavailable'));
    } finally {
      open.close();
    }
  };

/** @returns null: the account has no such object, or nothing has its upstream and credential any more. */
export async function findStored(
  { routeBack, upstreams }: Pick<Relay, 'routeBack' | 'upstreams'>,
  name: StoredName,
  kind: StoredKind,
): Promise<Stored | null> {
  const place = isStoredId(name.id) ? await routeBack.find(name, kind) : null;
  const upstream = place === null ? undefined : upstreams.get(place.upstream);
  const pool = upstream?.pools.find(({ credential }) => credential === place?.credential);
  return upstream && pool ? { name, upstream, pool } : null;
}

/** Sends a JSON reply of an upstream. */
export function sendReply(response: Response, bytes: Buffer): void {
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

/** Some parameters of a request's query, as a query. */
export function passedQuery(url: string, names: ReadonlySet<string>): string {
  const passed = [...queryOf(url)].filter(([name]) => names.has(name));
  return passed.length === 0 ? '' : `?${new URLSearchParams(passed).toString()}`;
}

export function queryOf(url: string): URLSearchParams {
  const at = url.indexOf('?');
  return new URLSearchParams(at < 0 ? '' : url.slice(at + 1));
}

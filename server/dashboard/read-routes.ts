import express, { type Request, type Response, type Router } from 'express';
import type { Key } from '#db/fold/key.ts';
import type { Route } from '#db/limits.ts';
import { refuseWith, replyOf, sendJson } from '#server/answer.ts';
import { LIST_WINDOW_MS } from '#server/bounds.ts';
import { type AsOf, RequestListQuery, type RequestPage, type RequestStory, UsageQuery, type UsageReport } from '#server/dashboard/contract.ts';
import { readCursor } from '#server/dashboard/cursor.ts';
import { readQuery, wrong } from '#server/dashboard/read-query.ts';
import type { ReadStore } from '#server/dashboard/read-store.ts';
import { exportRequests } from '#server/dashboard/request-export.ts';
import { listRequests, type PageWanted, REQUESTS } from '#server/dashboard/request-list.ts';
import { STORY, tellRequest } from '#server/dashboard/request-story.ts';
import { type Scope, scopeOf } from '#server/dashboard/scope.ts';
import { usageCsv } from '#server/dashboard/usage-csv.ts';
import { planUsage } from '#server/dashboard/usage-plan.ts';
import { reportUsage, usageSource } from '#server/dashboard/usage-report.ts';
import { Refusal } from '#server/errors.ts';
import { identify } from '#server/relay/identify.ts';
import type { Relay } from '#server/relay/relay.ts';
import { type Usage, usageOf } from '#server/relay/usage.ts';

/** The paths of the read API, as Express spells them. */
export const READ_ROUTES = ['/v1/usage', '/v1/requests', '/v1/requests/:request'] as const;

type Reader = { key: Key; scope: Scope; request: Request; response: Response };

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** What programs and the dashboard read: usage, requests, the story of one. It changes nothing. */
export function readRoutes({ relay, reads }: { relay: Relay; reads: ReadStore }): Router {
  const routes = express.Router({ caseSensitive: true });

  /** @param answer replies, or returns why it did not. */
  const get = (path: (typeof READ_ROUTES)[number], route: Route, answer: (reader: Reader) => Promise<Refusal | null>): void => {
    routes.get(path, async (request, response) => {
      const key = identify(relay, request, route);
      if (key instanceof Refusal) return refuseWith(request, response, key);
      const leave = reads.enter(key.id);
      if (leave instanceof Refusal) return refuseWith(request, response, leave);
      try {
        const refusal = await answer({ key, scope: scopeOf(key), request, response });
        if (refusal) refuseWith(request, response, refusal);
      } finally {
        leave();
      }
    });
  };

  get('/v1/usage', '/v1/usage', async ({ key, scope, request, response }) => {
    const query = readQuery(UsageQuery, request.url);
    if (query instanceof Refusal) return query;
    const plan = planUsage(query, scope, Math.floor(relay.readModel.nowMs()));
    if (typeof plan === 'string') return new Refusal('invalid_value', { message: plan });
    const read = await reads.read(usageSource(plan), (client) => reportUsage(client, scope, query, plan));
    if (read instanceof Refusal) return read;
    const report: UsageReport = { ...read.asOf, ...read.found };
    if (wantsCsv(query.format, request)) {
      sendCsv(response, 'usage.csv', usageCsv(report), read.asOf, ['x-rows-omitted', String(report.rows_omitted ?? 0)]);
      return null;
    }
    const usage: Usage = await usageOf(key, relay.readModel, relay.seat.limits);
    sendJson(response, 200, { ...usage, ...report });
    return null;
  });

  get('/v1/requests', '/v1/requests', async ({ scope, request, response }) => {
    const query = readQuery(RequestListQuery, request.url);
    if (query instanceof Refusal) return query;
    const wanted = pageWanted(query, scope, Math.floor(relay.readModel.nowMs()));
    if (wanted instanceof Refusal) return wanted;
    if (wantsCsv(query.format, request)) return exportRequests(reads, wanted, response);
    const read = await reads.read(REQUESTS, (client) => listRequests(client, wanted));
    if (read instanceof Refusal) return read;
    const { rows, next, lookedFromMs } = read.found;
    sendJson(response, 200, {
      object: 'list',
      data: rows,
      next,
      from: new Date(wanted.fromMs).toISOString(),
      to: wanted.toMs === null ? null : new Date(wanted.toMs).toISOString(),
      looked_from: new Date(lookedFromMs).toISOString(),
      ...read.asOf,
    } satisfies RequestPage);
    return null;
  });

  get('/v1/requests/:request', '/v1/requests', async ({ scope, request, response }) => {
    const { request: id } = request.params as { request: string };
    // Any text may be asked for, and is as unknown as an id that never was.
    const read = await reads.read(STORY, async (client) => (UUID.test(id) ? tellRequest(client, scope, id) : null));
    if (read instanceof Refusal) return read;
    if (read.found === null) return unknownRequest(read.asOf);
    sendJson(response, 200, { ...read.found, ...read.asOf } satisfies RequestStory);
    return null;
  });

  return routes;
}

/** The page that a query means. */
function pageWanted(query: RequestListQuery, scope: Scope, nowMs: number): PageWanted | Refusal {
  const { from, to, limit, cursor, format: _, ...filter } = query;
  const after = cursor === undefined ? null : readCursor(cursor);
  if (cursor !== undefined && after === null) return wrong('cursor', 'is not one that a page gave as "next"');
  const toMs = to?.getTime() ?? null;
  const fromMs = from?.getTime() ?? after?.fromMs ?? (toMs ?? nowMs) - LIST_WINDOW_MS;
  if (fromMs >= (toMs ?? Infinity)) return wrong('from', 'must be before "to"');
  return { scope, filter, fromMs, toMs, after, limit };
}

/** A call that has just been made is not in the tables yet: whoever knows of it may ask again. */
function unknownRequest({ as_of, behind }: AsOf): Refusal {
  const asOf = as_of === null ? 'yet' : `as of ${as_of}`;
  const rest = behind === 0 ? '' : ` ${behind} newer ${behind === 1 ? 'event is' : 'events are'} still to be taken in; ask again for a call that has just been made.`;
  return new Refusal('request_not_found', { message: `No such request is known to this key ${asOf}.${rest}` });
}

function wantsCsv(format: 'json' | 'csv' | undefined, request: Request): boolean {
  return format === undefined ? /^\s*text\/csv\b/i.test(request.headers.accept ?? '') : format === 'csv';
}

function sendCsv(response: Response, name: string, body: string, { as_of, position, behind }: AsOf, more: readonly string[]): void {
  const { requestId, extraHeaders } = replyOf(response);
  response.writeHead(200, [
    'content-type', 'text/csv; charset=utf-8; header=present',
    'content-disposition', `attachment; filename="${name}"`,
    'content-length', String(Buffer.byteLength(body)),
    'x-as-of', as_of ?? '',
    'x-position', String(position),
    'x-behind', String(behind),
    ...more,
    'x-request-id', requestId,
    ...extraHeaders,
  ]);
  response.end(body);
}

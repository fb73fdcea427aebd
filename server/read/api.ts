import type { Request, Response } from 'express';
import { replyOf } from '#server/http/respond.ts';
import { LIST_WINDOW_MS } from '#server/read/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';
import { ErrorReport, ErrorReportQuery } from '#server/contract/reads/error-report.ts';
import { RequestListQuery, RequestPage, RequestDetail } from '#server/contract/requests.ts';
import { SpendEventPage, SpendEventsQuery } from '#server/contract/spend-events.ts';
import { UsageQuery, UsageReport } from '#server/contract/usage.ts';
import { readCursor } from '#server/read/cursor.ts';
import { type ApiRoute, ANY_ROLE, type Contract, route, scopeOfMember } from '#server/dashboard/gate.ts';
import type { Caller } from '#server/sign-in/signed-in.ts';
import { readQuery, invalidParameter } from '#server/read/query.ts';
import type { ReadStore } from '#server/read/store.ts';
import { errorRange, reportErrors } from '#server/read/error-report.ts';
import { exportRequests } from '#server/read/request-export.ts';
import { listRequests, type PageQuery, REQUESTS } from '#server/read/request-list.ts';
import { REQUEST_DETAIL, readRequestDetail } from '#server/read/request-detail.ts';
import type { Scope } from '#server/read/scope.ts';
import { usageCsv, reportUsage, usageSource } from '#server/read/usage-report.ts';
import { planUsage } from '#server/read/usage-plan.ts';
import { checkRequests } from '#server/read/usage-requests.ts';
import { answerSpendEvents } from '#server/spend/answer.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/** Usage and requests, for keys under `/v1/` and for members under `/api/v1/`. Read-only. */

/** A reader: the scope, and the request to answer. */
export type Reader = {
  scope: Scope;
  /** The key of its concurrent reads: `key/<id>`, `member/<id>` or `management_key/<id>`. */
  holder: string;
  request: Request;
  response: Response;
};

export type ReadContext = { reads: ReadStore; readModel: ReadModel };

export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Runs `answer` while the reader holds one of its concurrent reads. */
export async function withReadSlot<T>(
  reads: ReadStore,
  holder: string,
  answer: () => Promise<T>,
): Promise<T | ApiError> {
  const leave = reads.enter(holder);
  if (leave instanceof ApiError) return leave;
  try {
    return await answer();
  } finally {
    leave();
  }
}

/** The usage report. @returns null if it has replied with CSV. */
export async function answerUsage(
  { reads, readModel }: ReadContext,
  { scope, request, response }: Reader,
): Promise<UsageReport | ApiError | null> {
  const query = readQuery(UsageQuery, request.url);
  if (query instanceof ApiError) return query;
  const plan = planUsage(query, scope, Math.floor(readModel.nowMs()));
  if (typeof plan === 'string') return new ApiError('invalid_value', { message: plan });
  const read = await reads.read(usageSource(plan), async (client) => {
    const refusal = plan.table === 'request' ? await checkRequests(client, scope, query, plan) : null;
    return refusal ?? (await reportUsage(client, scope, query, plan));
  });
  if (read instanceof ApiError) return read;
  if (typeof read.found === 'string') return new ApiError('invalid_value', { message: read.found });
  const report: UsageReport = { ...read.asOf, ...read.found };
  if (!wantsCsv(query.format, request)) return report;
  sendCsv(response, 'usage.csv', usageCsv(report), read.asOf, [
    'x-rows-omitted',
    String(report.rows_omitted ?? 0),
  ]);
  return null;
}

/** A page of requests. @returns null if it has replied with CSV. */
export async function answerRequests(
  { reads, readModel }: ReadContext,
  { scope, request, response }: Reader,
): Promise<RequestPage | ApiError | null> {
  const query = readQuery(RequestListQuery, request.url);
  if (query instanceof ApiError) return query;
  const wanted = pageWanted(query, scope, Math.floor(readModel.nowMs()));
  if (wanted instanceof ApiError) return wanted;
  if (wantsCsv(query.format, request)) return exportRequests(reads, wanted, response);
  const read = await reads.read(REQUESTS, (client) => listRequests(client, wanted));
  if (read instanceof ApiError) return read;
  const { rows, next, lookedFromMs } = read.found;
  return {
    object: 'list',
    data: rows,
    next,
    from: new Date(wanted.fromMs).toISOString(),
    to: wanted.toMs === null ? null : new Date(wanted.toMs).toISOString(),
    scanned_from: new Date(lookedFromMs).toISOString(),
    ...read.asOf,
  };
}

/** The errors and rejections of a range by their code. */
export async function answerErrors(
  { reads, readModel }: ReadContext,
  { scope, request }: Reader,
): Promise<ErrorReport | ApiError> {
  const query = readQuery(ErrorReportQuery, request.url);
  if (query instanceof ApiError) return query;
  const range = errorRange(query, Math.floor(readModel.nowMs()));
  if (range instanceof ApiError) return range;
  const read = await reads.read(REQUESTS, (client) => reportErrors(client, scope, query, range));
  return read instanceof ApiError ? read : { object: 'list', ...read.found, ...read.asOf };
}

/** Details of the request that the path names. */
export async function answerRequestDetail(
  { reads }: ReadContext,
  { scope, request, holder }: Reader,
): Promise<RequestDetail | ApiError> {
  const { request: id } = request.params as { request: string };
  // A malformed id is as unknown as an unused one.
  const read = await reads.read(REQUEST_DETAIL, async (client) =>
    UUID.test(id) ? readRequestDetail(client, scope, id) : null,
  );
  if (read instanceof ApiError) return read;
  if (read.found === null) return unknownRequest(holder, read.asOf);
  return { ...read.found, ...read.asOf };
}

/** The same routes for members, who see their account's data; administrators and auditors see all. */
export function readApiRoutes({
  reads,
  relay: { readModel },
}: {
  reads: ReadStore;
  relay: { readModel: ReadModel };
}): ApiRoute[] {
  const reading: ReadContext = { reads, readModel };
  const get = (
    path: string,
    contract: Contract,
    answer: (reading: ReadContext, reader: Reader) => Promise<object | ApiError | null>,
  ): ApiRoute =>
    route('get', path, 'usage:read', ANY_ROLE, contract, ({ request, response }, who) => {
      const reader: Reader = { scope: scopeOfMember(who), holder: holderOf(who), request, response };
      return withReadSlot(reads, reader.holder, () => answer(reading, reader));
    });
  return [
    get('/api/v1/usage', { query: UsageQuery, reply: UsageReport, others: ['text/csv'] }, answerUsage),
    get(
      '/api/v1/requests',
      { query: RequestListQuery, reply: RequestPage, others: ['text/csv'] },
      answerRequests,
    ),
    get('/api/v1/errors', { query: ErrorReportQuery, reply: ErrorReport }, answerErrors),
    get('/api/v1/requests/:request', { reply: RequestDetail }, answerRequestDetail),
    get('/api/v1/spend-events', { query: SpendEventsQuery, reply: SpendEventPage }, answerSpendEvents),
  ];
}

/** The key of a caller's concurrent reads: a member's over all their browser tabs. */
export const holderOf = ({ actor }: Pick<Caller, 'actor'>): string => actor;

/** The page that a query selects. */
function pageWanted(query: RequestListQuery, scope: Scope, nowMs: number): PageQuery | ApiError {
  const { from, to, limit, cursor, format: _, ...filter } = query;
  const after = cursor === undefined ? null : readCursor(cursor);
  if (cursor !== undefined && after === null)
    return invalidParameter('cursor', 'is not one that a page gave as "next"');
  const toMs = to?.getTime() ?? null;
  const fromMs = from?.getTime() ?? after?.fromMs ?? (toMs ?? nowMs) - LIST_WINDOW_MS;
  if (fromMs >= (toMs ?? Infinity)) return invalidParameter('from', 'must be before "to"');
  return { scope, filter, fromMs, toMs, after, limit };
}

/**
 * 404 for an unknown request. A recent request may not be projected yet, so the message says how far the
 * projection is.
 */
export function unknownRequest(holder: string, { as_of, behind }: Freshness): ApiError {
  const asOf = as_of === null ? 'yet' : `as of ${as_of}`;
  const rest =
    behind === 0
      ? ''
      : ` ${behind} newer ${behind === 1 ? 'event is' : 'events are'} not processed yet; retry later.`;
  return new ApiError('request_not_found', {
    message: `No such request is known to ${holder.startsWith('key/') ? 'this key' : 'you'} ${asOf}.${rest}`,
  });
}

function wantsCsv(format: 'json' | 'csv' | undefined, request: Request): boolean {
  return format === undefined ? /^\s*text\/csv\b/i.test(request.headers.accept ?? '') : format === 'csv';
}

function sendCsv(
  response: Response,
  name: string,
  body: string,
  { as_of, position, behind }: Freshness,
  more: readonly string[],
): void {
  const { requestId, extraHeaders } = replyOf(response);
  response.writeHead(200, [
    'content-type',
    'text/csv; charset=utf-8; header=present',
    'content-disposition',
    `attachment; filename="${name}"`,
    'content-length',
    String(Buffer.byteLength(body)),
    'x-as-of',
    as_of ?? '',
    'x-position',
    String(position),
    'x-behind',
    String(behind),
    ...more,
    'x-request-id',
    requestId,
    ...extraHeaders,
  ]);
  response.end(body);
}

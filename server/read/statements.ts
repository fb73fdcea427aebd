import type { Response } from 'express';
import { setImmediate } from 'node:timers/promises';
import type { ClientBase } from 'pg';
import { parseMonth } from '#db/audit/replay/statement.ts';
import { ArchivedError } from '#db/log/read.ts';
import { StoreError } from '#db/postgres/connect.ts';
import { digestOf } from '#db/statement/canonical.ts';
import { statementCsv } from '#db/statement/csv.ts';
import { statementFileParts } from '#db/statement/file.ts';
import { documentOf, invoiceName } from '#db/statement/invoices.ts';
import { type IssuedDocument, UnbalancedDocumentError } from '#db/statement/issued.ts';
import { renderPdf } from '#db/statement/pdf/render.ts';
import { proveStatement } from '#db/statement/prove.ts';
import {
  type ReadStatement,
  readStatement,
  type StatementBounds,
  type StatementRequest,
} from '#db/statement/read.ts';
import { MissingHashesError } from '#db/tlog/hashes.ts';
import { type StatementFormat, StatementQuery, type StatementReply } from '#server/contract/statements.ts';
import { KeyedSemaphore } from '#server/control/keyed-semaphore.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyOf } from '#server/http/respond.ts';
import type { Reader } from '#server/read/api.ts';
import {
  STATEMENT_ENTRIES_MAX,
  STATEMENT_LINES_MAX,
  STATEMENT_READ_MS,
  STATEMENTS_AT_ONCE,
} from '#server/read/bounds.ts';
import { replyWithLines } from '#server/read/export-reply.ts';
import { invalidParameter, readQuery } from '#server/read/query.ts';
import type { Scope } from '#server/read/scope.ts';
import type { ReadStore, Source } from '#server/read/store.ts';

/** Statements for keys and members, in all formats. */

export type Statements = { reads: ReadStore; witnesses: readonly string[] };

/** The projections have sums of days, and the positions of an account's events. */
const STATEMENTS: Source = { projection: 'requests', tables: ['request', 'statement_day'] };

/** Statements hold a connection for seconds: most of them stay with other readers. */
const places = new KeyedSemaphore();
const BUSY = new ApiError('relay_overloaded', {
  message: 'This server is computing as many statements as it can. Try again.',
});
const NOT_COVERED = new ApiError('receipt_not_ready', {
  message:
    'No checkpoint covers the statement yet. A running worker publishes one every ten seconds. Try again.',
});

/** The computation took longer than a reader waits. */
class SlowStatementError extends Error {
  override name = 'SlowStatementError';
}

/** The statement that a query names. @returns null if it has replied itself. */
export async function answerStatement(
  statements: Statements,
  { scope, request, response }: Reader,
): Promise<StatementReply | ApiError | null> {
  const query = readQuery(StatementQuery, request.url);
  if (query instanceof ApiError) return query;
  const wanted = statementWanted(query, scope);
  if (wanted instanceof ApiError) return wanted;
  return replyWithStatement(statements, response, query.format, async (client, bounds) => ({
    read: await readStatement(client, wanted, bounds),
    issued: null,
  }));
}

const UNREADABLE = 'is not one that this reader may read';

/** The statement that a query selects within a scope. Pure. */
function statementWanted(query: StatementQuery, scope: Scope): StatementRequest | ApiError {
  const { period, from, to, group_by = [], end_user = null } = query;
  const month = period === undefined ? null : parseMonth(period);
  if (month !== null && (from !== undefined || to !== undefined))
    return invalidParameter('period', 'excludes "from" and "to"');
  const [start, end] = month === null ? [from, to] : [month.from, month.until];
  if (start === undefined || end === undefined)
    return invalidParameter('period', 'is required, such as 2027-01; or "from" and "to" are');
  if (start >= end) return invalidParameter('from', 'must be before "to"');
  const account = scope.account ?? query.account;
  if (account === undefined) return invalidParameter('account', 'is required');
  if (query.account !== undefined && query.account !== account)
    return invalidParameter('account', UNREADABLE);
  const key = scope.key ?? query.key ?? null;
  if (query.key !== undefined && query.key !== key) return invalidParameter('key', UNREADABLE);
  return { account, key, end_user, from: start, to: end, group_by };
}

type Found = { read: ReadStatement; issued: IssuedDocument | null };

/**
 * Reads a statement within the bounds of a server, and replies in a format.
 * @returns the JSON reply; null if it has replied itself.
 */
export async function replyWithStatement(
  { reads, witnesses }: Statements,
  response: Response,
  format: StatementFormat,
  find: (client: ClientBase, bounds: StatementBounds) => Promise<Found>,
): Promise<StatementReply | ApiError | null> {
  const found = await readBounded(reads, response, async (client, bounds) => {
    const { read, issued } = await find(client, format === 'proof' ? bounds : { ...bounds, entriesMax: 0 });
    const entry = issued?.entry ?? null;
    const file = format === 'proof' ? await proveStatement(client, read, entry, witnesses) : null;
    return { statement: read.statement, issued, file };
  });
  if (found instanceof ApiError) return found;
  const { statement, issued, file } = found;
  const name = issued === null ? `statement-${statement.from.slice(0, 10)}` : invoiceName(issued.document);
  switch (format) {
    case 'json':
      return { object: 'statement', digest: digestOf(statement), ...statement };
    case 'csv':
      return send(response, statementCsv(statement), {
        type: 'text/csv; charset=utf-8; header=present',
        name: `${name}.csv`,
      });
    case 'pdf': {
      const pdf = await renderPdf({ statement, digest: digestOf(statement), document: documentOf(issued) });
      return pdf === null ? BUSY : send(response, pdf, { type: 'application/pdf', name: `${name}.pdf` });
    }
    case 'proof':
      if (file === null) return NOT_COVERED;
      return replyWithLines(
        response,
        fileHeaders({ type: 'application/json; charset=utf-8', name: `${name}.proof.json` }),
        parts(statementFileParts(file)),
      );
  }
}

/** Reads while one of the few statements of this process at once, for a bounded time. */
export async function readBounded<T>(
  reads: ReadStore,
  response: Pick<Response, 'destroyed'>,
  work: (client: ClientBase, bounds: StatementBounds) => Promise<T>,
): Promise<T | ApiError> {
  const leave = places.acquire('statements', STATEMENTS_AT_ONCE);
  if (leave === null) return BUSY;
  const until = performance.now() + STATEMENT_READ_MS;
  const pause = async (): Promise<void> => {
    if (performance.now() > until || response.destroyed) throw new SlowStatementError();
    await setImmediate();
  };
  const bounds = { entriesMax: STATEMENT_ENTRIES_MAX, linesMax: STATEMENT_LINES_MAX, pause };
  try {
    const read = await reads.read(STATEMENTS, (client) => work(client, bounds).catch(asApiError));
    return read instanceof ApiError ? read : read.found;
  } finally {
    leave();
  }
}

function asApiError(error: unknown): ApiError {
  if (error instanceof SlowStatementError)
    return new ApiError('query_timeout', {
      message:
        `The statement took longer than ${STATEMENT_READ_MS / 1_000} seconds. Use a shorter period, or ` +
        'the command "daybook statement".',
    });
  if (error instanceof ArchivedError || error instanceof MissingHashesError)
    return new ApiError('events_archived', {
      message:
        'Events of the statement are in the archive. The operator must restore that part: ' +
        'daybook archive restore.',
    });
  if (error instanceof UnbalancedDocumentError)
    return new ApiError('not_allowed', { message: sentence(error.message) });
  if (error instanceof StoreError) return new ApiError('invalid_value', { message: sentence(error.message) });
  throw error;
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;

async function* parts(texts: Iterable<string>): AsyncGenerator<string> {
  for (const text of texts) {
    yield text;
    await setImmediate();
  }
}

type FileKind = { type: string; name: string };

const fileHeaders = ({ type, name }: FileKind): string[] => [
  ...['content-type', type],
  // A series may have a slash, which no file name has.
  ...['content-disposition', `attachment; filename="${name.replaceAll('/', '-')}"`],
];

function send(response: Response, body: string | Buffer, kind: FileKind): null {
  const { requestId, extraHeaders } = replyOf(response);
  response.writeHead(200, [
    ...fileHeaders(kind),
    ...['content-length', String(Buffer.byteLength(body))],
    ...['x-request-id', requestId],
    ...extraHeaders,
  ]);
  response.end(body);
  return null;
}

import { type AliasedExpression, type Selectable, sql } from 'kysely';
import type { ClientBase } from 'pg';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';
import type { RequestTable } from '#db/schema/tables.ts';
import { LIST_LOOK_MAX } from '#server/read/bounds.ts';
import type { RequestFilter, RequestRow } from '#server/contract/requests.ts';
import { type Cursor, writeCursor } from '#server/read/cursor.ts';
import type { Source } from '#server/read/store.ts';
import { addCorrected } from '#server/read/request-corrections.ts';
import { seesUpstreamCost } from '#server/read/operator-fields.ts';
import { filterConditions, subjectConditions } from '#server/read/request-filter.ts';
import { REQUEST_COLUMNS, requestRow } from '#server/read/request-row.ts';
import type { Scope } from '#server/read/scope.ts';

export const REQUESTS: Source = { projection: 'requests', tables: ['request', 'running_request'] };

/** A page of the list: scope, filter, range and cursor. */
export type PageQuery = {
  scope: Scope;
  filter: RequestFilter;
  /** Milliseconds since 1970: accepted from this moment on, and before that one; null: without end. */
  fromMs: number;
  toMs: number | null;
  after: Cursor | null;
  limit: number;
  /** Requests that it looks at for rows that fit the filter. */
  lookMax?: number;
};

export type PageResult = {
  rows: RequestRow[];
  next: string | null;
  /** How far back it has looked, in milliseconds since 1970. */
  lookedFromMs: number;
};

/** `accepted_at` with the precision of Postgres. */
const AT_US = sql<string>`(extract(epoch from accepted_at) * 1000000)::bigint`;

/**
 * One page, newest first. It walks back along an index through the requests of the subject, so its cost
 * depends on the range that is shown and not on the size of the table. With a selective filter at most
 * `LIST_LOOK_MAX` requests are scanned: the page then holds the matches, and the next page continues.
 */
export async function listRequests(client: ClientBase, wanted: PageQuery): Promise<PageResult> {
  const { filter, limit, fromMs, lookMax = LIST_LOOK_MAX } = wanted;
  const conditions = filterConditions(filter);
  const narrows = conditions.length > 0;
  let query = db
    .selectFrom(newestFirst(wanted, narrows ? lookMax : limit + 1).as('scanned'))
    .select(REQUEST_COLUMNS)
    .select(AT_US.as('at_us'))
    .orderBy('accepted_at', 'desc')
    .orderBy('position', 'desc')
    .limit(limit + 1);
  for (const condition of conditions) query = query.where(condition);
  const rows = await rowsOf(client, query);
  const page = rows.slice(0, limit);
  const last =
    rows.length > limit ? page.at(-1) : narrows ? await lastScanned(client, wanted, lookMax) : undefined;
  const shown = page.map((record) => requestRow(record, seesUpstreamCost(wanted.scope)));
  await addCorrected(client, shown, seesUpstreamCost(wanted.scope));
  if (last === undefined) return { rows: shown, next: null, lookedFromMs: fromMs };
  const atUs = Number(last.at_us);
  return {
    rows: shown,
    next: writeCursor({ fromMs, atUs, position: Number(last.position) }),
    lookedFromMs: Math.floor(atUs / 1_000),
  };
}

/** The last request that one page could scan; undefined if the range ends before it. */
async function lastScanned(
  client: ClientBase,
  wanted: PageQuery,
  lookMax: number,
): Promise<{ at_us: string; position: string } | undefined> {
  const scanned = newestFirst(wanted, 1).offset(lookMax - 1);
  return rowOf(client, db.selectFrom(scanned.as('scanned')).select([AT_US.as('at_us'), 'position']));
}

/** The requests of a page's subject and range, in the order of one index. */
function newestFirst({ scope, filter, fromMs, toMs, after }: PageQuery, limit: number) {
  const requests: AliasedExpression<Selectable<RequestTable>, 'request'> = filter.outcome === 'running'
    ? runningRequests(scope.account ?? filter.account ?? null).as('request')
    : sql<Selectable<RequestTable>>`${sql.table('projection.request')}`.as('request');
  let query = db
    .selectFrom(requests)
    .selectAll()
    .where('accepted_at', '>=', timestampOf(fromMs))
    .orderBy('accepted_at', 'desc')
    .orderBy('position', 'desc')
    .limit(limit);
  for (const condition of subjectConditions(scope, filter)) query = query.where(condition);
  if (toMs !== null) query = query.where('accepted_at', '<', timestampOf(toMs));
  if (after === null) return query;
  const at = sql<Date>`'epoch'::timestamptz + ${after.atUs}::bigint * interval '1 microsecond'`;
  return query.where(({ eb, refTuple, tuple }) =>
    eb(refTuple('accepted_at', 'position'), '<', tuple(at, sql<string>`${after.position}::bigint`)),
  );
}

/** Running requests have a table of their own, which stays small. */
function runningRequests(account: string | null) {
  const query = db
    .selectFrom('projection.running_request as running')
    .innerJoin('projection.request as r', 'r.request', 'running.request')
    .selectAll('r');
  return account === null ? query : query.where('running.account', '=', account);
}

const timestampOf = (ms: number) => sql<Date>`to_timestamp(${ms}::float8 / 1000)`;

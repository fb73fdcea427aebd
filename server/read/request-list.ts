import type { ClientBase } from 'pg';
import { LIST_LOOK_MAX } from '#server/read/bounds.ts';
import type { RequestFilter, RequestRow } from '#server/contract/requests.ts';
import { type Cursor, writeCursor } from '#server/read/cursor.ts';
import type { Source } from '#server/read/store.ts';
import { filterConditions, subjectConditions, Values } from '#server/read/request-filter.ts';
import { REQUEST_COLUMNS, type RequestRecord, requestRow } from '#server/read/request-row.ts';
import type { Scope } from '#server/read/scope.ts';

export const REQUESTS: Source = { projection: 'requests', tables: ['request', 'running_request'] };

/** A page that is wanted: of whom, of what, of when, and from where on. */
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

const NEWEST_FIRST = 'order by accepted_at desc, position desc';
const MICROSECONDS = '(extract(epoch from accepted_at) * 1000000)::bigint';

/**
 * One page, newest first. It walks back along an index through the requests of the subject, so its
 * cost grows with the time that is shown and not with what is kept. Of a page with a filter that fits
 * few, at most `LIST_LOOK_MAX` are looked at: it then holds what was found, and the next goes on.
 */
export async function listRequests(client: ClientBase, wanted: PageQuery): Promise<PageResult> {
  const { filter, limit, fromMs, lookMax = LIST_LOOK_MAX } = wanted;
  const values = new Values();
  const source = sourceOf(wanted, values);
  const conditions = filterConditions(filter, values);
  const narrows = conditions.length > 0;
  const { rows } = await client.query<RequestRecord & { at_us: string }>(
    `select ${REQUEST_COLUMNS}, ${MICROSECONDS} as at_us
      from (select * from ${source} ${NEWEST_FIRST} limit ${narrows ? lookMax : limit + 1}) looked
      ${where(conditions)} ${NEWEST_FIRST} limit ${limit + 1}`,
    values.list,
  );
  const page = rows.slice(0, limit);
  const goOnAfter =
    rows.length > limit ? page.at(-1) : narrows ? await lastScanned(client, wanted, lookMax) : undefined;
  if (goOnAfter === undefined) return { rows: page.map(requestRow), next: null, lookedFromMs: fromMs };
  const atUs = Number(goOnAfter.at_us);
  return {
    rows: page.map(requestRow),
    next: writeCursor({ fromMs, atUs, position: Number(goOnAfter.position) }),
    lookedFromMs: Math.floor(atUs / 1_000),
  };
}

/** The last request that one page could look at; undefined where the time that is listed ends before it. */
async function lastScanned(
  client: ClientBase,
  wanted: PageQuery,
  lookMax: number,
): Promise<{ at_us: string; position: string } | undefined> {
  const values = new Values();
  const { rows } = await client.query<{ at_us: string; position: string }>(
    `select ${MICROSECONDS} as at_us, position from ${sourceOf(wanted, values)} ${NEWEST_FIRST} offset ${lookMax - 1} limit 1`,
    values.list,
  );
  return rows[0];
}

/** The rows that are walked through, as they come from one index. */
function sourceOf({ scope, filter, fromMs, toMs, after }: PageQuery, values: Values): string {
  const table =
    filter.outcome === 'running'
      ? runningOf(scope.account ?? filter.account ?? null, values)
      : 'projection.request';
  const conditions = [
    ...subjectConditions(scope, filter, values),
    `accepted_at >= to_timestamp(${values.add(fromMs)}::float8 / 1000)`,
    ...(toMs === null ? [] : [`accepted_at < to_timestamp(${values.add(toMs)}::float8 / 1000)`]),
  ];
  if (after !== null) {
    const at = `'epoch'::timestamptz + ${values.add(after.atUs)}::bigint * interval '1 microsecond'`;
    conditions.push(`(accepted_at, position) < (${at}, ${values.add(after.position)}::bigint)`);
  }
  return `${table} ${where(conditions)}`;
}

/** Running calls have a table of their own, which is small whatever is kept. */
function runningOf(account: string | null, values: Values): string {
  return `(select r.* from projection.running_request g join projection.request r on r.request = g.request
    ${account === null ? '' : `where g.account = ${values.add(account)}`}) request`;
}

function where(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : `where ${conditions.join(' and ')}`;
}

import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { END_REASON_OF } from '#db/events/endings.ts';
import { ROUTE_OF } from '#db/limits/limits.ts';
import { type EndedOutcome, endReasonCodes, OUTCOME_OF } from '#db/projections/outcomes.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import {
  ERROR_ROWS_MAX,
  type ErrorGroup,
  type ErrorReport,
  type ErrorReportQuery,
  type ErrorRow,
} from '#server/contract/reads/error-report.ts';
import { ERRORS_LOOK_MAX, LIST_WINDOW_MS } from '#server/read/bounds.ts';
import { filterConditions, subjectConditions } from '#server/read/request-filter.ts';
import type { Scope } from '#server/read/scope.ts';
import type { ApiError } from '#server/errors/api-error.ts';
import { invalidParameter } from '#server/read/query.ts';

/** Rejected and failed requests by their code: how many, since when, and the newest as a sample. */

const FAILURES: readonly EndedOutcome[] = ['upstream_failed', 'cut_short', 'relay_failed'];
const FAILED_CODES = FAILURES.flatMap(endReasonCodes);
const IS_ERROR = sql<boolean>`(error_code is not null or end_reason = any(${FAILED_CODES}::smallint[]))`;

type Range = { fromMs: number; toMs: number | null };
/** The range of acceptance times. */
export function errorRange({ from, to }: ErrorReportQuery, nowMs: number): Range | ApiError {
  const toMs = to?.getTime() ?? null;
  const fromMs = from?.getTime() ?? (toMs ?? nowMs) - LIST_WINDOW_MS;
  if (fromMs < (toMs ?? Infinity)) return { fromMs, toMs };
  return invalidParameter('from', 'must be before "to"');
}

type Found = Pick<ErrorReport, 'data' | 'rows_omitted' | 'from' | 'to' | 'scanned_from'>;

/**
 * The report of a range. Looks at the newest requests of the subject up to a bound, so that its cost doesn't
 * grow with the table.
 */
export async function reportErrors(
  client: ClientBase,
  scope: Scope,
  query: ErrorReportQuery,
  { fromMs, toMs }: Range,
  lookMax = ERRORS_LOOK_MAX,
): Promise<Found> {
  const { from: _, to: __, group_by: by, ...filter } = query;
  let scanned = db
    .selectFrom('projection.request')
    .selectAll()
    .where('accepted_at', '>=', timeOf(fromMs))
    .orderBy('accepted_at', 'desc')
    .orderBy('position', 'desc')
    .limit(lookMax);
  if (toMs !== null) scanned = scanned.where('accepted_at', '<', timeOf(toMs));
  for (const condition of subjectConditions(scope, filter)) scanned = scanned.where(condition);
  const conditions = [IS_ERROR, ...filterConditions(filter)];
  const isOwned = by === 'key' || by === 'end_user';
  const rows = await rowsOf(
    client,
    db
      .with('scanned', () => scanned)
      .with('error', (from) =>
        from
          .selectFrom('scanned')
          .select(['error_code', 'end_reason', 'accepted_at', 'request', 'status'])
          .select(sql<string | null>`${by === undefined ? sql.lit(null) : sql.ref(by)}::text`.as('named'))
          .select(sql<string | null>`${isOwned ? sql.ref('account') : sql.lit(null)}::text`.as('owner'))
          .select(sql<number>`coalesce(rejected_count, 1)`.as('calls'))
          .where(sql<boolean>`${sql.join(conditions, sql` and `)}`),
      )
      .with('grouped', (from) =>
        from
          .selectFrom('error')
          .select(['error_code', 'end_reason', 'named', 'owner'])
          .select(sql<string>`sum(calls)`.as('requests'))
          .select(sql<Date>`min(accepted_at)`.as('first_at'))
          .select(sql<Date>`max(accepted_at)`.as('last_at'))
          .select(sql<string>`(array_agg(request order by accepted_at desc))[1]`.as('request'))
          .select(sql<number | null>`(array_agg(status order by accepted_at desc))[1]`.as('status'))
          .select(sql<string>`count(*) over ()`.as('groups'))
          .groupBy(['error_code', 'end_reason', 'named', 'owner'])
          .orderBy('requests', 'desc')
          .orderBy('last_at', 'desc')
          .limit(ERROR_ROWS_MAX),
      )
      .with('looked', (from) =>
        from
          .selectFrom('scanned')
          .select(sql<string>`count(*)`.as('looked'))
          .select(sql<Date | null>`min(accepted_at)`.as('oldest')),
      )
      .selectFrom('looked')
      .leftJoin('grouped', (join) => join.onTrue())
      .selectAll(),
  );
  const [first] = rows;
  const data = rows.flatMap((row) => {
    const error = errorOf(row, by);
    return error === null ? [] : [error];
  });
  const from = new Date(fromMs).toISOString();
  return {
    data,
    rows_omitted: Number(first?.groups ?? 0) - data.length,
    from,
    to: toMs === null ? null : new Date(toMs).toISOString(),
    scanned_from: Number(first?.looked ?? 0) < lookMax ? from : (first?.oldest?.toISOString() ?? from),
  };
}

type Row = {
  error_code: string | null;
  end_reason: number | null;
  named: string | null;
  owner: string | null;
  requests: string | null;
  first_at: Date | null;
  last_at: Date | null;
  request: string | null;
  status: number | null;
};

/** @returns null for the row of a report without errors. */
function errorOf(row: Row, by: ErrorGroup | undefined): ErrorRow | null {
  const { error_code, end_reason, named, owner, requests, first_at, last_at, request, status } = row;
  if (request === null || first_at === null || last_at === null) return null;
  const reason = END_REASON_OF.get(end_reason ?? NaN);
  const outcome = reason === undefined ? 'refused' : OUTCOME_OF[reason];
  if (outcome === 'completed' || outcome === 'client_disconnected') return null;
  return {
    kind: error_code === null ? 'failed' : 'rejected',
    code: error_code ?? reason ?? '',
    outcome,
    group: by === 'route' && named !== null ? (ROUTE_OF.get(Number(named)) ?? null) : named,
    account: owner,
    requests: Number(requests),
    first_at: first_at.toISOString(),
    last_at: last_at.toISOString(),
    request,
    status,
  };
}

const timeOf = (ms: number) => sql<Date>`to_timestamp(${ms}::float8 / 1000)`;

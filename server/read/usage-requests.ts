import { type RawBuilder, sql } from 'kysely';
import type { ClientBase } from 'pg';
import { USAGE_SOURCES, type UsageSource } from '#db/events/endings.ts';
import { isEstimated } from '#db/fold/estimated.ts';
import { BUCKET_BOUNDS_MS } from '#db/projections/buckets.ts';
import { ENDED_OUTCOMES, endReasonCodes } from '#db/projections/outcomes.ts';
import { db, onlyRowOf } from '#db/schema/query.ts';
import type { UsageGroup, UsageQuery } from '#server/contract/usage.ts';
import { USAGE_CALL_MAX_MS, USAGE_REQUESTS_MAX } from '#server/read/bounds.ts';
import { filterConditions, subjectConditions } from '#server/read/request-filter.ts';
import type { Scope } from '#server/read/scope.ts';
import type { UsagePlan } from '#server/read/usage-plan.ts';

/** The figures of single requests, with the columns of the usage tables, for reports that no table has. */

const timeOf = (ms: number) => sql`to_timestamp(${ms}::float8 / 1000)`;

/** The requests of a report's subject that may have ended within its range. */
function candidates(scope: Scope, query: UsageQuery, { fromMs, toMs }: UsagePlan): RawBuilder<unknown> {
  return sql.join(
    [
      ...subjectConditions(scope, query),
      sql`accepted_at >= ${timeOf(fromMs - USAGE_CALL_MAX_MS)}`,
      sql`accepted_at < ${timeOf(toMs)}`,
    ],
    sql` and `,
  );
}

/**
 * Whether a report can be summed from the requests.
 * @returns a message if a part of its requests was deleted, or if there are too many.
 */
export async function checkRequests(
  client: ClientBase,
  scope: Scope,
  query: UsageQuery,
  plan: UsagePlan,
  most: number = USAGE_REQUESTS_MAX,
): Promise<string | null> {
  const state = await onlyRowOf(
    client,
    db
      .selectFrom('daybook.projection')
      .select([
        sql<boolean>`kept_from > ${timeOf(plan.fromMs)}`.as('is_deleted'),
        // Infinity has no ISO form; nothing was deleted then.
        sql<string>`to_char(kept_from at time zone 'UTC', 'YYYY-MM-DD')`.as('kept_from'),
        sql<string>`(select count(*) from (select from projection.request
          where ${candidates(scope, query, plan)} limit ${sql.lit(most + 1)}) r)`.as('count'),
      ])
      .where('name', '=', 'requests'),
  );
  if (state.is_deleted)
    return `By these filters and groups there is usage from ${state.kept_from} on: use a later "from".`;
  if (Number(state.count) <= most) return null;
  return (
    `More than ${most} requests would be summed one by one: use a shorter range, or filter ` +
    'by account or key.'
  );
}

const ESTIMATED = Object.entries(USAGE_SOURCES).flatMap(([source, code]) =>
  isEstimated(source as UsageSource) ? [code] : [],
);
const isEnd = (codes: readonly number[]) =>
  sql`end_reason = any(${sql.lit(`{${codes.join()}}`)}::smallint[])`;
const IS_ESTIMATED = sql`usage_source = any(${sql.lit(`{${ESTIMATED.join()}}`)}::smallint[])`;
const BOUNDS = sql.lit(`{${BUCKET_BOUNDS_MS.join()}}`);
const bucketOf = (name: 'duration' | 'first_byte') => {
  const ms = sql.ref(`${name}_ms`);
  return sql`width_bucket(${ms} - 1, ${BOUNDS}::integer[]) + 1 as ${sql.ref(`${name}_bucket`)}`;
};

const FIGURES = [
  ...ENDED_OUTCOMES.map((outcome) => sql`${isEnd(endReasonCodes(outcome))}::integer as ${sql.ref(outcome)}`),
  sql`rejected_count as refused`,
  sql`(end_reason is not null and cost_nanousd is null)::integer as unpriced`,
  sql`${IS_ESTIMATED}::integer as estimated`,
  // An abandoned request has no status: none was recorded.
  sql`case when end_reason is not null and status is null then hold_tokens end as abandoned_tokens`,
  ...['input', 'cache_read', 'cache_write', 'output', 'reasoning'].map((name) => sql.ref(`${name}_tokens`)),
  sql.ref('cost_nanousd'),
  sql`coalesce(upstream_cost_nanousd, cost_nanousd) as upstream_cost_nanousd`,
  sql`case when ${IS_ESTIMATED} then cost_nanousd end as estimated_cost_nanousd`,
  sql`0 as corrections`,
  sql`0::bigint as correction_cost_nanousd`,
  bucketOf('duration'),
  bucketOf('first_byte'),
];
/** The same of corrections, which count as no request. */
const CORRECTED_FIGURES = [
  ...[...ENDED_OUTCOMES, 'refused', 'unpriced', 'estimated'].map((name) => sql`0 as ${sql.ref(name)}`),
  sql`hold_tokens as abandoned_tokens`,
  ...['input', 'cache_read', 'cache_write', 'output', 'reasoning'].map((name) => sql.ref(`${name}_tokens`)),
  sql.ref('cost_nanousd'),
  sql`coalesce(upstream_cost_nanousd, cost_nanousd) as upstream_cost_nanousd`,
  sql`null::bigint as estimated_cost_nanousd`,
  sql`1 as corrections`,
  sql`cost_nanousd as correction_cost_nanousd`,
  sql`null::integer as duration_bucket`,
  sql`null::integer as first_byte_bucket`,
];

/** The name of each group of a request; empty where it has none. */
const GROUPS: Record<Exclude<UsageGroup, 'tag'>, RawBuilder<unknown>> = {
  account: sql.ref('account'),
  key: sql.ref('key'),
  model: orNone('model'),
  route: sql`coalesce(route::text, '') as route`,
  upstream: orNone('upstream'),
  end_user: orNone('end_user'),
  session: orNone('session'),
  outcome: sql`case ${sql.join(
    ENDED_OUTCOMES.map((outcome) => sql`when ${isEnd(endReasonCodes(outcome))} then ${sql.lit(outcome)}`),
    sql` `,
  )} else 'refused' end as outcome`,
  status: sql`coalesce(status::text, '') as status`,
  error_code: orNone('error_code'),
};

function orNone(column: string): RawBuilder<unknown> {
  return sql`coalesce(${sql.ref(column)}, '') as ${sql.ref(column)}`;
}

/**
 * The ended requests of a report and the corrections that were recorded in its range, with the column `tags`
 * where they are grouped by tag.
 */
export function figuresOfRequests(scope: Scope, query: UsageQuery, plan: UsagePlan): RawBuilder<unknown> {
  const ended = requestFigures(scope, query, plan);
  // Rejections alone have an error code, and no correction is of one.
  if (query.error_code !== undefined || query.outcome === 'refused') return ended;
  const added = correctionFigures(scope, query, plan);
  return sql`(select * from ${ended} ended union all select * from ${added} added)`;
}

/** Corrections up to the position of the projection, so that all figures are of one point of the log. */
function correctionFigures(scope: Scope, query: UsageQuery, plan: UsagePlan): RawBuilder<unknown> {
  const { fromMs, toMs, groups } = plan;
  const conditions = [
    ...subjectConditions(scope, query),
    ...filterConditions(query),
    sql`at >= ${timeOf(fromMs)}`,
    sql`at < ${timeOf(toMs)}`,
    sql`position <= (select position from daybook.projection where name = 'requests')`,
  ];
  const named = groups.map((group) =>
    group === 'tag' ? sql.ref('tags') : group === 'error_code' ? sql`'' as error_code` : GROUPS[group],
  );
  return sql`(select ${sql.join([sql`at as ended_at`, ...named, ...CORRECTED_FIGURES])}
    from daybook.correction where ${sql.join(conditions, sql` and `)})`;
}

function requestFigures(scope: Scope, query: UsageQuery, plan: UsagePlan): RawBuilder<unknown> {
  const { fromMs, toMs, groups } = plan;
  const conditions = [
    candidates(scope, query, plan),
    ...filterConditions(query),
    sql`ended_at >= ${timeOf(fromMs)}`,
    sql`ended_at < ${timeOf(toMs)}`,
  ];
  const named = groups.map((group) => (group === 'tag' ? sql.ref('tags') : GROUPS[group]));
  return sql`(select ${sql.join([sql.ref('ended_at'), ...named, ...FIGURES])} from projection.request
    where ${sql.join(conditions, sql` and `)})`;
}

/** One row for each tag of a request, or one without a tag. */
export const EACH_TAG = sql`cross join lateral unnest(string_to_array(coalesce(tags, ''), ' ')
  || case when coalesce(tags, '') = '' then array[''] end) as tag`;

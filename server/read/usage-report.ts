import { type RawBuilder, type Selectable, sql } from 'kysely';
import type { ClientBase } from 'pg';
import { rowsOf } from '#db/schema/query.ts';
import { type Cell, csvLine } from '#db/csv.ts';
import type { UsageDayTable } from '#db/schema/tables.ts';
import { ROUTE_OF } from '#db/limits/limits.ts';
import { BUCKETS, quantileOf } from '#db/projections/buckets.ts';
import { USAGE_ROWS_MAX } from '#server/read/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';
import type {
  UsageFigures,
  UsageGroup,
  UsageQuery,
  UsageReport,
  UsageRow,
  UsagePercentiles,
} from '#server/contract/usage.ts';
import type { Source } from '#server/read/store.ts';
import { seesUpstreamCost } from '#server/read/operator-fields.ts';
import { subjectConditions } from '#server/read/request-filter.ts';
import type { Scope } from '#server/read/scope.ts';
import type { UsagePlan } from '#server/read/usage-plan.ts';
import { EACH_TAG, figuresOfRequests } from '#server/read/usage-requests.ts';

/**
 * Groups are hashed: the planner overestimates their number as the number of rows, and would sort those on
 * disk.
 */
const SETTINGS = { enable_sort: 'off', work_mem: '16MB' };

export const usageSource = ({ table }: UsagePlan): Source => ({
  projection: table === 'request' ? 'requests' : 'usage',
  tables: [table],
  settings: SETTINGS,
});

const COUNTS = [
  'completed',
  'client_disconnected',
  'upstream_failed',
  'cut_short',
  'relay_failed',
  'refused',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'unpriced',
  'estimated',
  'corrections',
] as const;
const COSTS = [
  'cost_nanousd',
  'upstream_cost_nanousd',
  'estimated_cost_nanousd',
  'correction_cost_nanousd',
] as const;
const HISTOGRAMS = ['duration_counts', 'first_byte_counts'] as const;

// Sums of counts as floating-point numbers, which are exact up to 2^53. Sums of money may be greater.
const sumOf = (value: RawBuilder<unknown>): RawBuilder<number> =>
  sql<number>`coalesce(sum(${value}), 0)::float8`;
const SUMS = [
  ...COUNTS.map((name) => sql`${sumOf(sql.ref(name))} as ${sql.ref(name)}`),
  // A numeric comes as text.
  ...COSTS.map((name) => sql`coalesce(sum(${sql.ref(name)}), 0) as ${sql.ref(name)}`),
];
const TIMES_OF_TABLES = HISTOGRAMS.map((name) => {
  const sums = Array.from({ length: BUCKETS }, (_, index) =>
    sumOf(sql`${sql.ref(name)}[${sql.lit(index + 1)}]`),
  );
  return sql`array[${sql.join(sums)}] as ${sql.ref(name)}`;
});
/** The same of requests, each of which has its buckets. */
const TIMES_OF_REQUESTS = (['duration_bucket', 'first_byte_bucket'] as const).map((name, at) => {
  const counts = Array.from(
    { length: BUCKETS },
    (_, index) => sql`(count(*) filter (where ${sql.ref(name)} = ${sql.lit(index + 1)}))::float8`,
  );
  return sql`array[${sql.join(counts)}] as ${sql.ref(HISTOGRAMS[at] as string)}`;
});
const ENDED = sql`completed + client_disconnected + upstream_failed + cut_short + relay_failed`;

type Sums = Record<(typeof COUNTS)[number], number> &
  Record<(typeof COSTS)[number], string> &
  Partial<Record<(typeof HISTOGRAMS)[number], number[]>>;
/** The sums of one group, or of all; every column is computed. */
type Grouped = Sums & {
  is_total: boolean;
  count: number;
  bucket_at?: Date | null;
} & Partial<Pick<Selectable<UsageDayTable>, 'account' | 'key' | 'model'>> &
  Partial<Record<UsageGroup, string>>;

/**
 * Runs a plan in one pass over its rows; the totals are the sum of the groups, or of the rows where a row is
 * in several groups.
 */
export async function reportUsage(
  client: ClientBase,
  scope: Scope,
  query: UsageQuery,
  plan: UsagePlan,
): Promise<Omit<UsageReport, keyof Freshness>> {
  const { bucket, groups } = plan;
  const time = sql.ref(plan.column);
  const isOfRequests = plan.table === 'request';
  const source = isOfRequests ? figuresOfRequests(scope, query, plan) : tableRows(scope, query, plan);
  const hasTimes = query.percentiles ?? groups.length === 0;
  const sums = hasTimes ? [...SUMS, ...TIMES_OF_TABLES] : SUMS;
  const rowSums = hasTimes && isOfRequests ? [...SUMS, ...TIMES_OF_REQUESTS] : sums;
  const named = [...COUNTS, ...COSTS, ...(hasTimes ? HISTOGRAMS : [])].map((name) => sql.ref(name));
  const apart = [...(bucket === null ? [] : ['bucket_at']), ...groups].map((name) => sql.ref(name));
  const inBuckets =
    bucket === null ? sql`` : sql`, date_trunc(${sql.lit(bucket)}, ${time}, 'UTC') as bucket_at`;
  const absent = apart.map((name) => sql`null as ${name}`);
  const hasTags = groups.includes('tag');
  const isApart = apart.length > 0;
  const rows = await rowsOf(
    client,
    sql<Grouped>`with used as ${hasTags ? sql`materialized` : sql`not materialized`} (
        select *${inBuckets} from ${source} rows
      ), part as materialized (
        select ${sql.join([...apart, ...rowSums])}
          from used ${hasTags ? EACH_TAG : sql``}
          ${isApart ? sql`group by ${sql.join(apart)}` : sql``})
      select *, count(*) over ()::integer as count from (
        select true as is_total, ${sql.join([...absent, ...(hasTags ? rowSums : sums)])}
          from ${hasTags ? sql`used` : sql`part`}
        ${isApart ? sql`union all select false, ${sql.join([...apart, ...named])} from part` : sql``}) summed
      order by is_total desc, ${bucket === null ? sql`` : sql`bucket_at, `}${sql.join([
        sql`${ENDED} + refused desc`,
        ...groups.map((group) => sql.ref(group)),
      ])} limit ${sql.lit(USAGE_ROWS_MAX + 1)}`,
  );
  const [total, ...parts] = rows as [Grouped, ...Grouped[]];
  const isOperator = seesUpstreamCost(scope);
  return {
    scope: { account: scope.account ?? query.account ?? null, key: scope.key ?? query.key ?? null },
    from: new Date(plan.fromMs).toISOString(),
    to: new Date(plan.toMs).toISOString(),
    bucket,
    group_by: [...groups],
    source: isOfRequests ? 'requests' : 'usage',
    totals: figures(total, isOperator),
    ...(apart.length > 0
      ? {
          rows: parts.map((part) => rowOf(part, plan, isOperator)),
          rows_omitted: total.count - 1 - parts.length,
        }
      : {}),
  };
}

/** The rows of a table of sums. */
function tableRows(scope: Scope, query: UsageQuery, plan: UsagePlan): RawBuilder<unknown> {
  const time = sql.ref(plan.column);
  const conditions = [
    ...subjectConditions(scope, query),
    ...(query.model === undefined ? [] : [sql`model = ${query.model}`]),
    sql`${time} >= to_timestamp(${plan.fromMs}::float8 / 1000)`,
    sql`${time} < to_timestamp(${plan.toMs}::float8 / 1000)`,
  ];
  return sql`(select * from ${sql.table(`projection.${plan.table}`)}
    where ${sql.join(conditions, sql` and `)})`;
}

function rowOf(part: Grouped, { groups }: UsagePlan, isOperator: boolean): UsageRow {
  return {
    ...(part.bucket_at ? { from: part.bucket_at.toISOString() } : {}),
    ...Object.fromEntries(groups.map((group) => [group, nameOf(group, part[group] as string)])),
    ...figures(part, isOperator),
  };
}

const nameOf = (group: UsageGroup, name: string): string =>
  group === 'route' ? (ROUTE_OF.get(Number(name)) ?? '') : name;

function figures(sums: Sums, isOperator: boolean): UsageFigures {
  const { duration_counts: durations, first_byte_counts: firstBytes } = sums;
  const { completed, client_disconnected, upstream_failed, cut_short, relay_failed } = sums;
  return {
    requests: completed + client_disconnected + upstream_failed + cut_short + relay_failed,
    completed,
    client_disconnected,
    upstream_failed,
    cut_short,
    relay_failed,
    refused: sums.refused,
    input_tokens: sums.input_tokens,
    cache_read_tokens: sums.cache_read_tokens,
    cache_write_tokens: sums.cache_write_tokens,
    output_tokens: sums.output_tokens,
    reasoning_tokens: sums.reasoning_tokens,
    abandoned_tokens: sums.abandoned_tokens,
    cost_nanousd: sums.cost_nanousd,
    ...(isOperator ? { upstream_cost_nanousd: sums.upstream_cost_nanousd } : {}),
    unpriced: sums.unpriced,
    estimated: sums.estimated,
    estimated_cost_nanousd: sums.estimated_cost_nanousd,
    corrections: sums.corrections,
    correction_cost_nanousd: sums.correction_cost_nanousd,
    ...(durations && firstBytes ? times(durations, firstBytes) : {}),
  };
}

function times(durations: readonly number[], firstBytes: readonly number[]): UsagePercentiles {
  return {
    duration_p50_ms: percentile(durations, 0.5),
    duration_p95_ms: percentile(durations, 0.95),
    first_byte_p50_ms: percentile(firstBytes, 0.5),
    first_byte_p95_ms: percentile(firstBytes, 0.95),
  };
}

function percentile(counts: readonly number[], share: number): number | null {
  const ms = quantileOf(counts, share);
  return ms === null ? null : Math.round(ms);
}

/** A usage report as CSV: its rows or, without groups, its totals as the only row. Pure. */
export function usageCsv({ bucket, group_by, totals, rows }: UsageReport): string {
  const names = Object.keys(totals) as (keyof UsageFigures)[];
  const columns: (keyof UsageRow)[] = [
    ...(bucket === null ? [] : (['from'] as const)),
    ...group_by,
    ...names,
  ];
  return [
    csvLine(columns),
    ...(rows ?? [totals as UsageRow]).map((row) => csvLine(columns.map((name) => cellOf(row, name)))),
  ].join('');
}

/** A sum of money is a text in JSON, but a number in CSV: below zero it would be taken for a formula. */
function cellOf(row: UsageRow, name: keyof UsageRow): Cell {
  const value = row[name];
  return typeof value === 'string' && (COSTS as readonly string[]).includes(name) ? BigInt(value) : value;
}

import type { ClientBase } from 'pg';
import { csvLine } from '#db/csv.ts';
import { BUCKETS, quantileOf } from '#db/projections/buckets.ts';
import { USAGE_ROWS_MAX } from '#server/read/bounds.ts';
import type { Freshness } from '#server/contract/parts.ts';
import type {
  UsageFigures,
  UsageQuery,
  UsageReport,
  UsageRow,
  UsagePercentiles,
} from '#server/contract/usage.ts';
import type { Source } from '#server/read/store.ts';
import { subjectConditions, Values } from '#server/read/request-filter.ts';
import type { Scope } from '#server/read/scope.ts';
import type { UsagePlan } from '#server/read/usage-plan.ts';

/**
 * Groups are hashed: Postgres can't know how few they are, takes them for as many as the rows, and
 * would sort those on disk.
 */
const SETTINGS = { enable_sort: 'off', work_mem: '16MB' };

export const usageSource = ({ table }: UsagePlan): Source => ({
  projection: 'usage',
  tables: [table],
  settings: SETTINGS,
});

const COUNTS = [
  'completed',
  'client_gone',
  'upstream_failed',
  'cut_short',
  'relay_failed',
  'refused',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_microusd',
  'unpriced',
] as const;
const HISTOGRAMS = ['duration_counts', 'first_byte_counts'] as const;

// Sums as floating-point numbers, which are exact up to 2^53: nine billion dollars in micro-dollars.
const SUMS = COUNTS.map((name) => `coalesce(sum(${name}), 0)::float8 as ${name}`);
const TIMES = HISTOGRAMS.map((name) => {
  const sums = Array.from(
    { length: BUCKETS },
    (_, index) => `coalesce(sum(${name}[${index + 1}]), 0)::float8`,
  );
  return `array[${sums.join(', ')}] as ${name}`;
});
const ENDED = 'completed + client_gone + upstream_failed + cut_short + relay_failed';

type Sums = Record<(typeof COUNTS)[number], number> & Partial<Record<(typeof HISTOGRAMS)[number], number[]>>;
type Grouped = Sums & {
  is_total: boolean;
  count: number;
  bucket_at?: Date | null;
  account?: string;
  key?: string;
  model?: string;
};

/** Sums up what a plan says, in one walk over its rows; the totals are the sum of the parts. */
export async function reportUsage(
  client: ClientBase,
  scope: Scope,
  query: UsageQuery,
  plan: UsagePlan,
): Promise<Omit<UsageReport, keyof Freshness>> {
  const { bucket, groups } = plan;
  const values = new Values();
  const conditions = [
    ...subjectConditions(scope, query, values),
    ...(query.model === undefined ? [] : [`model = ${values.add(query.model)}`]),
    `${plan.column} >= to_timestamp(${values.add(plan.fromMs)}::float8 / 1000)`,
    `${plan.column} < to_timestamp(${values.add(plan.toMs)}::float8 / 1000)`,
  ];
  const hasTimes = query.percentiles ?? groups.length === 0;
  const sums = hasTimes ? [...SUMS, ...TIMES] : SUMS;
  const named = hasTimes ? [...COUNTS, ...HISTOGRAMS] : COUNTS;
  const apart = [...(bucket === null ? [] : ['bucket_at']), ...groups];
  const inBuckets = bucket === null ? '' : `, date_trunc('${bucket}', ${plan.column}, 'UTC') as bucket_at`;
  const order = [
    'is_total desc',
    ...(bucket === null ? [] : ['bucket_at']),
    `${ENDED} + refused desc`,
    ...groups,
  ];
  const { rows } = await client.query<Grouped>(
    `with part as materialized (
        select ${[...apart, ...sums].join(', ')}
          from (select *${inBuckets} from projection.${plan.table} where ${conditions.join(' and ')}) used
          ${apart.length === 0 ? '' : `group by ${apart.join(', ')}`})
      select *, count(*) over ()::integer as count from (
        select true as is_total, ${[...apart.map((name) => `null as ${name}`), ...sums].join(', ')} from part
        ${apart.length === 0 ? '' : `union all select false, ${[...apart, ...named].join(', ')} from part`}) summed
      order by ${order.join(', ')} limit ${USAGE_ROWS_MAX + 1}`,
    values.list,
  );
  const [total, ...parts] = rows as [Grouped, ...Grouped[]];
  return {
    scope: { account: scope.account ?? query.account ?? null, key: scope.key ?? query.key ?? null },
    from: new Date(plan.fromMs).toISOString(),
    to: new Date(plan.toMs).toISOString(),
    bucket,
    group_by: [...groups],
    totals: figures(total),
    ...(apart.length > 0
      ? { rows: parts.map((part) => rowOf(part, plan)), rows_omitted: total.count - 1 - parts.length }
      : {}),
  };
}

function rowOf(part: Grouped, { groups }: UsagePlan): UsageRow {
  return {
    ...(part.bucket_at ? { from: part.bucket_at.toISOString() } : {}),
    ...Object.fromEntries(groups.map((group) => [group, part[group]])),
    ...figures(part),
  };
}

function figures(sums: Sums): UsageFigures {
  const { duration_counts: durations, first_byte_counts: firstBytes } = sums;
  const { completed, client_gone, upstream_failed, cut_short, relay_failed } = sums;
  return {
    requests: completed + client_gone + upstream_failed + cut_short + relay_failed,
    completed,
    client_gone,
    upstream_failed,
    cut_short,
    relay_failed,
    refused: sums.refused,
    input_tokens: sums.input_tokens,
    cached_tokens: sums.cached_tokens,
    output_tokens: sums.output_tokens,
    reasoning_tokens: sums.reasoning_tokens,
    abandoned_tokens: sums.abandoned_tokens,
    cost_microusd: sums.cost_microusd,
    unpriced: sums.unpriced,
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

/** A usage report as CSV: its rows or, where it is not taken apart, its totals as the only one. Pure. */
export function usageCsv({ bucket, group_by, totals, rows }: UsageReport): string {
  const figures = Object.keys(totals) as (keyof UsageFigures)[];
  const columns: (keyof UsageRow)[] = [
    ...(bucket === null ? [] : (['from'] as const)),
    ...group_by,
    ...figures,
  ];
  return [
    csvLine(columns),
    ...(rows ?? [totals as UsageRow]).map((row) => csvLine(columns.map((name) => row[name]))),
  ].join('');
}

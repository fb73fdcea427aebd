import type { ClientBase } from 'pg';
import { EVENT_CODES } from '#db/events/events.ts';
import { BUCKET_BOUNDS_MS, BUCKETS } from '#db/projections/buckets.ts';
import { ENDED_OUTCOMES, endReasonCodes, OUTCOMES } from '#db/projections/outcomes.ts';
import { queryRange } from '#db/projections/page.ts';
import type { Projection, Range } from '#db/projections/projection.ts';

const ACCEPTED = EVENT_CODES['request.accepted'];
const SETTLED = EVENT_CODES['request.settled'];
const ABANDONED = EVENT_CODES['request.abandoned'];
const REJECTED = EVENT_CODES['request.rejected'];
const ENDED = `${SETTLED}, ${ABANDONED}`;

const SUMS = [
  ...OUTCOMES,
  'unpriced',
  'input_tokens',
  'cached_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_microusd',
] as const;
const HISTOGRAMS = ['duration_counts', 'first_byte_counts'] as const;
const FIGURES = [...SUMS, ...HISTOGRAMS].join(', ');

const list = (parts: readonly string[]): string => parts.join(',\n      ');
/** An array with an element for each bucket, numbered from 1. */
const buckets = (element: (number: number) => string): string =>
  `array[${Array.from({ length: BUCKETS }, (_, index) => element(index + 1)).join(', ')}]`;

/** The bucket of a column, from 1 like the elements of an array. */
const bucket = (column: string): string =>
  `width_bucket(${column} - 1, array[${BUCKET_BOUNDS_MS.join(', ')}]) + 1`;
const counted = (column: string): string =>
  buckets((number) => `count(*) filter (where ${column} = ${number})`);

/** The figures of events: each end and each rejection is counted once, in the minute of its event. */
const FIGURES_OF_EVENTS = list([
  ...ENDED_OUTCOMES.map(
    (outcome) =>
      `count(*) filter (where end_reason in (${endReasonCodes(outcome).join(', ')})) as ${outcome}`,
  ),
  'coalesce(sum(rejected_count), 0)::bigint as refused',
  'count(*) filter (where cost is null and end_reason is not null) as unpriced',
  ...['input_tokens', 'cached_tokens', 'output_tokens', 'reasoning_tokens'].map(
    (name) => `coalesce(sum(${name}), 0)::bigint as ${name}`,
  ),
  'coalesce(sum(abandoned_tokens), 0)::bigint as abandoned_tokens',
  'coalesce(sum(cost), 0)::bigint as cost_microusd',
  `${counted('duration_bucket')} as duration_counts`,
  `${counted('first_byte_bucket')} as first_byte_counts`,
]);

/** The figures of several rows as one. */
const FIGURES_OF_ROWS = list([
  ...SUMS.map((name) => `sum(${name})::bigint as ${name}`),
  ...HISTOGRAMS.map((name) => `${buckets((number) => `sum(${name}[${number}])::bigint`)} as ${name}`),
]);

/** The assignments for an existing row of the table `t`. */
const ADDED = list([
  ...SUMS.map((name) => `${name} = t.${name} + excluded.${name}`),
  ...HISTOGRAMS.map(
    (name) => `${name} = ${buckets((number) => `t.${name}[${number}] + excluded.${name}[${number}]`)}`,
  ),
]);

/** Rolls the rows of a finer table up into another one. */
const rollUp = (
  table: string,
  {
    unit,
    by,
    from,
  }: { unit: 'minute' | 'hour' | 'day'; by: string[]; from: { table: string; time: string } },
): string =>
  `insert into ${table} as t (${[unit, ...by].join(', ')}, ${FIGURES})
    select date_bin('1 ${unit}', ${from.time}, 'epoch'), ${[...by, FIGURES_OF_ROWS].join(', ')}
      from ${from.table} group by ${[1, ...by].join(', ')}
    on conflict (${[unit, ...by].join(', ')}) do update set ${ADDED}`;

const BY_KEY = ['account', 'key', 'model'];
const MINUTE = { table: 'minute', time: 'minute' };
const HOUR = { table: 'hour', time: 'hour' };

/**
 * All tables in one statement: the events are summed once, by minute, and the rest is rolled up from
 * those sums. The key, account and model of a call are those of its end.
 */
const USAGE = `,
  minute as materialized (
    select date_bin('1 minute', at, 'epoch') as minute, account, key, coalesce(model, '') as model,
      ${FIGURES_OF_EVENTS}
      from (
        select at, account, key, model, end_reason, rejected_count,
            input_tokens, cached_tokens, output_tokens, reasoning_tokens,
            case when type = ${ABANDONED} then hold_tokens end as abandoned_tokens,
            case when type = ${ABANDONED} then hold_cost_microusd else cost_microusd end as cost,
            ${bucket('duration_ms')} as duration_bucket,
            ${bucket('first_byte_ms')} as first_byte_bucket
          from event where type in (${ENDED}, ${REJECTED})
      ) e
      group by 1, 2, 3, 4
  ),
  minutes as (${rollUp('usage_minute', { unit: 'minute', by: BY_KEY, from: MINUTE })}),
  key_hours as (${rollUp('usage_hour_key', { unit: 'hour', by: BY_KEY, from: MINUTE })}),
  days as (${rollUp('usage_day', { unit: 'day', by: BY_KEY, from: MINUTE })}),
  hour as materialized (
    select date_bin('1 hour', minute, 'epoch') as hour, account, ${FIGURES_OF_ROWS} from minute group by 1, 2
  ),
  hours as (${rollUp('usage_hour', { unit: 'hour', by: ['account'], from: HOUR })}),
  account_days as (${rollUp('usage_day_account', { unit: 'day', by: ['account'], from: HOUR })}),
  minute_totals as (${rollUp('usage_minute_total', { unit: 'minute', by: [], from: MINUTE })}),
  hour_totals as (${rollUp('usage_hour_total', { unit: 'hour', by: [], from: HOUR })})
  insert into key_use as t (key, account, last_used_at, requests, cost_microusd)
    select key, max(account), max(used_at), sum(requests)::bigint, sum(cost_microusd)::bigint
      from (
        select key, account, max(at) as used_at, count(*) as requests, 0 as cost_microusd
          from event where type = ${ACCEPTED} group by key, account
        union all
        select key, account, null, 0, cost_microusd from minute
      ) u
      group by key
    on conflict (key) do update set last_used_at = greatest(t.last_used_at, excluded.last_used_at),
      requests = t.requests + excluded.requests, cost_microusd = t.cost_microusd + excluded.cost_microusd`;

/** Usage by minute, hour and day, and the last use of each key. */
export const usage: Projection = {
  name: 'usage',
  tables: [
    'usage_minute',
    'usage_minute_total',
    'usage_hour_key',
    'usage_hour',
    'usage_hour_total',
    'usage_day',
    'usage_day_account',
    'key_use',
  ],
  // An account's hours, and all days, are kept forever.
  kept: [
    { table: 'usage_minute', time: 'minute' },
    { table: 'usage_hour_key', time: 'hour' },
    { table: 'usage_minute_total', time: 'minute' },
  ],
  async apply(client: ClientBase, range: Range): Promise<void> {
    await queryRange(client, range, 'usage', USAGE);
  },
};

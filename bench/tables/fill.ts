import { Client } from 'pg';
import { withTimeout, type Store } from '#db/postgres/connect.ts';
import { END_REASONS, USAGE_SOURCES } from '#db/events/endings.ts';
import { EVENT_CODES, type EventType } from '#db/events/events.ts';
import { ROUTE_CODES } from '#db/limits/limits.ts';
import { SHARD } from '#db/log/append.ts';
import { type ColumnName, FIELDS } from '#db/log/columns.ts';
import { BUCKET_BOUNDS_MS, BUCKETS } from '#db/projections/buckets.ts';
import { ENDED_OUTCOMES, endReasonCodes } from '#db/projections/outcomes.ts';
import { makeRequestPartitions, partitionDays } from '#db/projections/request-partitions.ts';
import { usage } from '#db/projections/usage.ts';

/**
 * Fills the tables with a month of usage, by statements over whole days: through the log and the
 * projector ten million requests would take an hour. Each day has the same load, distributed over
 * the hours of a working day. One account has a tenth of the load, 120 accounts have half; accounts
 * have 1 to 100 keys, and few of eight models are used much.
 */

export const REQUESTS_PER_DAY = 333_333;
export const ACCOUNTS = 1_000;
const MODELS = [
  'gpt-4o-mini',
  'gpt-4o',
  'llama-3.3-70b',
  'o4-mini',
  'qwen3-32b',
  'mistral-large',
  'deepseek-r1',
  'rare-model',
];
/** The instance of events that no server appended: no instance has this number. */
const NO_INSTANCE = 0;
const FILL_TIMEOUT_MS = 3_600_000;

/** The id of an account by its rank: 0 has most requests. */
export const accountId = (rank: number): string => `Acct${String(rank).padStart(4, '0')}`;
/** The id of an account's key that is used most. */
export const keyId = (rank: number): string => `K${String(rank).padStart(4, '0')}000`;

const KEY_COUNT = 'case when rank < 10 then 100 else 1 + rank % 10 end';
const MODEL = `(array['${MODELS.join("','")}'])[1 + floor(${MODELS.length} * power(random(), 3))::integer]`;

/** `$1` is the day's beginning, `$2` the position before it, `$3` how many requests it has. */
const REQUESTS = `
  insert into projection.request (request, position, end_position, accepted_at, ended_at,
      hold_tokens, cost_nanousd, upstream_cost_nanousd, terms_position, instance, admitted_minute, body_bytes,
      input_tokens, cache_read_tokens, output_tokens, reasoning_tokens, first_byte_ms, duration_ms,
      price_version, rejected_count,
      status, end_reason, usage_source, attempt_count, retry_count, route, sse,
      account, key, model, upstream, error_code, end_user, session, tags)
  select
      -- In order of time, like those of UUIDv7.
      (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0')
        || substr(md5(n::text || $2::bigint::text), 1, 20))::uuid,
      $2::bigint + 2 * n - 1, $2::bigint + 2 * n, at,
      case when refused then at else at + duration_ms * interval '1 millisecond' end,
      case when not refused then input_tokens + 1024 end,
      case when not refused then input_tokens * 2 + output_tokens * 8 end,
      -- A failed attempt of a few calls was billed too.
      case when not refused and luck < 0.02 then input_tokens * 4 + output_tokens * 8 end,
      case when not refused then 1 end, 1,
      case when not refused then floor(extract(epoch from at) / 60)::integer end,
      case when not refused then input_tokens * 4 end,
      case when not refused then input_tokens end, case when not refused then input_tokens / 4 end,
      case when not refused then output_tokens end, case when not refused then 0 end,
      case when not refused then duration_ms / 5 end, case when not refused then duration_ms end,
      case when not refused then 1 end, case when refused then 3 end,
      case when refused then 429 when luck < 0.96 then 200 when luck < 0.98 then 499 else 502 end,
      case when refused then null when luck < 0.96 then ${END_REASONS.completed}
        when luck < 0.98 then ${END_REASONS.client_disconnected}
        when luck < 0.995 then ${END_REASONS.upstream_error}
        when luck < 0.998 then ${END_REASONS.quota_exceeded}
        else ${END_REASONS.internal_error} end,
      case when not refused then ${USAGE_SOURCES.provider} end, case when not refused then 1 end, null,
      ${ROUTE_CODES['/v1/chat/completions']}, case when not refused then luck < 0.7 end,
      'Acct' || lpad(rank::text, 4, '0'),
      'K' || lpad(rank::text, 4, '0') || lpad(floor((${KEY_COUNT}) * power(random(), 2))::text, 3, '0'),
      case when not refused then ${MODEL} end, case when not refused then 'one' end,
      case when refused then 'rate_limit_exceeded' end,
      -- Half of the calls say whom they are for; of a tenth of them it is known in which session.
      case when luck > 0.5 then 'EndUser' || lpad(floor(10000 * power(random(), 2))::text, 9, '0') end,
      case when luck > 0.9 then 'Session' || lpad(floor(100000 * random())::text, 9, '0') end,
      case when luck > 0.9 then 'Tag' || lpad(floor(20 * power(random(), 2))::text, 13, '0') end
    from (
      select n, floor(${ACCOUNTS} * power(random(), 3))::integer as rank,
          random() as luck, random() < 0.015 as refused,
          (50 + 8000 * power(random(), 4))::integer as input_tokens,
          (10 + 2000 * power(random(), 3))::integer as output_tokens,
          (150 + 40000 * power(random(), 4))::integer as duration_ms,
          -- More by day than by night, and never backwards.
          $1::timestamptz + interval '1 day' * (n / $3::float8 - 0.1 * sin(2 * pi() * n / $3::float8)) as at
        from generate_series(1, $3::integer) n
    ) made
    order by n`;

const bucketOf = (column: string): string =>
  `width_bucket(${column} - 1, array[${BUCKET_BOUNDS_MS.join(', ')}]) + 1`;
const forEachBucket = (element: (number: number) => string): string =>
  `array[${Array.from({ length: BUCKETS }, (_, index) => element(index + 1)).join(', ')}]`;
const histogram = (column: string): string =>
  forEachBucket((number) => `count(*) filter (where ${column} = ${number})`);

const SUMMED = [
  'refused',
  'unpriced',
  'estimated',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'output_tokens',
  'reasoning_tokens',
  'abandoned_tokens',
  'cost_nanousd',
  'upstream_cost_nanousd',
  'estimated_cost_nanousd',
];
const NAMES = [...ENDED_OUTCOMES, ...SUMMED, 'duration_counts', 'first_byte_counts'].join(', ');
const FIGURES_OF_REQUESTS = [
  ...ENDED_OUTCOMES.map(
    (outcome) => `count(*) filter (where end_reason in (${endReasonCodes(outcome).join(', ')}))`,
  ),
  'coalesce(sum(rejected_count), 0)',
  'count(*) filter (where cost_nanousd is null and end_reason is not null)',
  '0',
  ...['input_tokens', 'cache_read_tokens', 'cache_write_tokens', 'output_tokens', 'reasoning_tokens'].map(
    (name) => `coalesce(sum(${name}), 0)`,
  ),
  '0',
  'coalesce(sum(cost_nanousd), 0)',
  'coalesce(sum(coalesce(upstream_cost_nanousd, cost_nanousd)), 0)',
  '0',
  histogram('duration_bucket'),
  histogram('first_byte_bucket'),
].join(', ');
const FIGURES_OF_ROWS = [
  ...[...ENDED_OUTCOMES, ...SUMMED].map((name) => `sum(${name})`),
  ...['duration_counts', 'first_byte_counts'].map(
    (name) =>
      `array[${Array.from({ length: BUCKETS }, (_, index) => `sum(${name}[${index + 1}])`).join(', ')}]`,
  ),
].join(', ');

type Unit = 'minute' | 'hour' | 'day';

/** A usage table from the requests that ended from `$1` to `$2`. */
const fromRequests = (table: string, unit: Unit, by: readonly string[]): string =>
  `insert into projection.${table} (${[unit, ...by].join(', ')}, ${NAMES})
    select date_bin('1 ${unit}', ended_at, 'epoch'), ${[...by, FIGURES_OF_REQUESTS].join(', ')}
      from (select ended_at, account, key, coalesce(model, '') as model, end_reason, rejected_count,
            input_tokens, cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens,
            cost_nanousd, upstream_cost_nanousd,
            ${bucketOf('duration_ms')} as duration_bucket, ${bucketOf('first_byte_ms')} as first_byte_bucket
          from projection.request where accepted_at >= $1::timestamptz - interval '5 minutes'
            and ended_at >= $1 and accepted_at < $2 and ended_at < $2) r
      group by ${[1, ...by].join(', ')}`;

/** The same from a finer one. */
const fromRows = (
  table: string,
  unit: Unit,
  by: readonly string[],
  finer: { table: string; time: Unit },
): string =>
  `insert into projection.${table} (${[unit, ...by].join(', ')}, ${NAMES})
    select date_bin('1 ${unit}', ${finer.time}, 'epoch'), ${[...by, FIGURES_OF_ROWS].join(', ')}
      from projection.${finer.table} where ${finer.time} >= $1 and ${finer.time} < $2
      group by ${[1, ...by].join(', ')}`;

const DAY_MS = 86_400_000;
const MINUTES_DAYS = 2;
/** As many as the default retention has. */
const PARTITION_DAYS = partitionDays(90);
/** What fits into the log's first partition: a hundred days would be too many. */
const DAYS_MAX = 70;
const RUNNING = 300;

/** So many requests fill so many days, at least one. */
export const daysOf = (requestCount: number): number =>
  Math.min(DAYS_MAX, Math.max(1, Math.ceil(requestCount / REQUESTS_PER_DAY)));

/** The last event of a day, counted back from the end. */
const positionOf = (daysBefore: number): number => 2 * REQUESTS_PER_DAY * (DAYS_MAX - daysBefore);

/**
 * Fills the projections' tables for the days from one to another, the oldest first.
 * @param endMs the end of the last day, a midnight in UTC.
 * @param days counted back from there: 30 to 3 are all of thirty but the last three.
 */
export async function fillTables(
  store: Store,
  endMs: number,
  days: { from: number; to: number },
  signal: AbortSignal,
): Promise<void> {
  await using worker = await connect(store, 'worker');
  const { client } = worker;
  await client.query(
    "set synchronous_commit = off; set jit = off; set maintenance_work_mem = '256MB'; set work_mem = '128MB'",
  );
  const each = async (work: (begin: Date, end: Date, day: number) => Promise<unknown>): Promise<void> => {
    for (let day = days.from; day > days.to; day--) {
      signal.throwIfAborted();
      await work(new Date(endMs - day * DAY_MS), new Date(endMs - (day - 1) * DAY_MS), day);
    }
  };
  await makeRequestPartitions(client, {
    days: PARTITION_DAYS,
    from: new Date(endMs - DAYS_MAX * DAY_MS),
    nowMs: endMs,
  });
  const restore = await dropIndexes(client);
  await each((begin, _end, day) => client.query(REQUESTS, [begin, positionOf(day), REQUESTS_PER_DAY]));
  await restore();
  await client.query('analyze projection.request');
  await each(async (begin, end, day) => {
    const range = [begin, end];
    await client.query(fromRequests('usage_day', 'day', ['account', 'key', 'model']), range);
    await client.query(fromRequests('usage_hour', 'hour', ['account']), range);
    await client.query(
      fromRows('usage_day_account', 'day', ['account'], { table: 'usage_hour', time: 'hour' }),
      range,
    );
    await client.query(
      fromRows('usage_hour_total', 'hour', [], { table: 'usage_hour', time: 'hour' }),
      range,
    );
    if (day > MINUTES_DAYS) return;
    await client.query(fromRequests('usage_minute', 'minute', ['account', 'key', 'model']), range);
    await client.query(
      fromRows('usage_hour_key', 'hour', ['account', 'key', 'model'], {
        table: 'usage_minute',
        time: 'minute',
      }),
      range,
    );
    await client.query(
      fromRows('usage_minute_total', 'minute', [], { table: 'usage_minute', time: 'minute' }),
      range,
    );
  });
  if (days.to === 0) await finish(store, client, new Date(endMs - DAY_MS));
  // As autovacuum does in time; otherwise the first reader of a page would set its hint bits.
  for (const table of ['request', 'running_request', ...usage.tables])
    await client.query(`vacuum (analyze) projection.${table}`);
}

const line = (type: EventType, fields: Partial<Record<ColumnName, string>>): string => {
  const cells = FIELDS.map(({ name }) => (name === 'type' ? EVENT_CODES[type] : (fields[name] ?? 'null')));
  return `row(${cells.join(', ')})::text`;
};
const own = (...names: readonly ColumnName[]) => Object.fromEntries(names.map((name) => [name, name]));
const CALL = own('request', 'account', 'key', 'model');
const ACCEPTED = line('request.accepted', { ...CALL, ...own('route', 'sse', 'body_bytes', 'hold_tokens') });
const SETTLED = line('request.settled', {
  ...CALL,
  ...own('status', 'end_reason', 'usage_source', 'input_tokens', 'cache_read_tokens', 'output_tokens'),
  ...own('reasoning_tokens', 'attempt_count', 'first_byte_ms', 'duration_ms', 'cost_nanousd'),
});
/** The events of each call since `$1` as a batch of its own. */
const BATCHES = `
  insert into daybook.log (shard, last_position, at, event_count, instance, events)
    select ${SHARD}, coalesce(end_position, position), accepted_at,
        case when ended_at is null then 1 else 2 end, ${NO_INSTANCE},
        concat_ws(e'\\n', ${ACCEPTED}, case when ended_at is not null then ${SETTLED} end)
      from projection.request where accepted_at >= $1 and error_code is null`;

/** Adds the running calls, the last day of the log, and the positions of the projections. */
async function finish(store: Store, client: Client, lastDay: Date): Promise<void> {
  await client.query(`
    with running as (
      update projection.request set ended_at = null, end_position = null, end_reason = null, status = null,
          duration_ms = null, first_byte_ms = null, cost_nanousd = null
        where request in (select request from projection.request
          where error_code is null order by accepted_at desc limit ${RUNNING})
        returning request, position, account)
    insert into projection.running_request (request, position, account) select * from running`);
  await client.query('update daybook.projection set position = $1, position_at = $2', [
    positionOf(0),
    new Date(lastDay.getTime() + DAY_MS),
  ]);
  // Only the log's owner may write it past its function, and projections are not the owner's to read.
  await client.query('grant select on projection.request to daybook_owner');
  await using owner = await connect(store, 'owner');
  await owner.client.query(BATCHES, [lastDay]);
  await owner.client.query(
    `insert into daybook.log_batch (shard, last_position, event_count, instance, batch_no, at, format, chain)
      select shard, last_position, event_count, instance, last_position, at, 1, ''::bytea from daybook.log
      union all
      -- The head, where the last request was rejected or is running.
      select ${SHARD}, $1, 1, ${NO_INSTANCE}, $1, now(), 1, ''::bytea
        where not exists (select from daybook.log where last_position = $1)`,
    [positionOf(0)],
  );
}

/** Drops the secondary indexes: filling is several times faster. @returns a function that recreates them. */
async function dropIndexes(client: Client): Promise<() => Promise<void>> {
  const { rows } = await client.query<{ name: string; definition: string }>(
    `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as definition
      from pg_index where indrelid = 'projection.request'::regclass and not indisprimary`,
  );
  for (const { name } of rows) await client.query(`drop index ${name}`);
  return async () => {
    // That of a partitioned index names the parent only.
    for (const { definition } of rows) await client.query(definition.replace(' ON ONLY ', ' ON '));
  };
}

async function connect(
  store: Store,
  role: 'worker' | 'owner',
): Promise<{ client: Client } & AsyncDisposable> {
  const client = new Client(withTimeout(store.config(role), FILL_TIMEOUT_MS));
  await client.connect();
  return { client, [Symbol.asyncDispose]: () => client.end() };
}

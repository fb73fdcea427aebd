import type { ClientBase } from 'pg';
import { LIVE_SCHEMA, type Projection } from '#db/projections/projection.ts';
import { quotas } from '#db/projections/quotas.ts';
import { requests } from '#db/projections/requests.ts';
import { usage } from '#db/projections/usage.ts';

/**
 * Takes away what is older than it is kept. The log keeps all; rows of projections say in
 * `daybook.projection.kept_from` what is not there any more, so that a rebuild leaves it out, too.
 */

/** Rows in one transaction: some tens of milliseconds, for which the projector waits. */
const ROWS_PER_STEP = 5_000;
const STEP_PAUSE_MS = 50;
/** One run; what is left then is for the next hour's. */
const RUN_MS_MAX = 10 * 60_000;

/**
 * A page of events that is being projected is waited for, and reading old rows may take long on a cold disk.
 */
export const RETAIN_TIMEOUT_MS = 60_000;

/**
 * Windows of quotas are kept for as long as requests are, after their end: a month's began up to so many days
 * before it.
 */
const WINDOW_DAYS_MAX = 31;
/**
 * Usage by the minute is shown for two days, and the hour that they begin in is to be whole. An account's
 * hours, and all days, are kept.
 */
const USAGE_MINUTES_HOURS = 49;
/** Alerts with their deliveries; far longer than the longest window that one was raised for. */
const ALERTS_DAYS = 90;
/** Jobs that failed for good are kept to be looked at. */
const JOBS_DAYS = 7;

/**
 * All checkpoints of so long are there for those who look at them closely; of each hour before that, one
 * proves as much.
 */
const CHECKPOINTS_HOURS = 48;

/** A projection that forgets: which rows, the projection itself says, so that a rebuild forgets the same. */
export type Forgetful = {
  projection: Projection;
  /**
   * The indexed time that the oldest rows of the first of its tables are found by: never later than that
   * which they go by.
   */
  found_by: string;
  /** How long they are kept, as Postgres reads it. */
  keep: string;
};

export function forgetful(requestRowsDays: number): Forgetful[] {
  const minutes: Forgetful = { projection: usage, found_by: 'minute', keep: `${USAGE_MINUTES_HOURS} hours` };
  if (requestRowsDays === 0) return [minutes];
  return [
    { projection: requests, found_by: 'accepted_at', keep: `${requestRowsDays} days` },
    { projection: quotas, found_by: 'begins_at', keep: `${requestRowsDays + WINDOW_DAYS_MAX} days` },
    minutes,
  ];
}

/** Of each old hour the last stays, and the last that a witness has signed, too. */
const THIN_CHECKPOINTS = `with old as (
    select shard, epoch, size, date_trunc('hour', published_at, 'UTC') as hour,
      exists (select from daybook.cosignature s where s.shard = c.shard and s.epoch = c.epoch and s.size = c.size) as is_cosigned
    from daybook.checkpoint c where published_at < date_trunc('hour', clock_timestamp() - interval '${CHECKPOINTS_HOURS} hours', 'UTC')),
  ranked as (select *, row_number() over (partition by shard, epoch, hour order by size desc) as nth,
      row_number() over (partition by shard, epoch, hour, is_cosigned order by size desc) as nth_alike from old)
  delete from daybook.checkpoint c using ranked r
    where c.shard = r.shard and c.epoch = r.epoch and c.size = r.size and nth > 1 and not (is_cosigned and nth_alike = 1)`;

/**
 * Takes rows away in steps until none is too old, the run's time is over, or `signal` says to stop.
 * @returns how many rows went.
 */
export async function retain(
  client: ClientBase,
  all: readonly Forgetful[],
  signal: AbortSignal,
): Promise<number> {
  const endMs = performance.now() + RUN_MS_MAX;
  let gone = 0;
  for (const each of all) {
    for (;;) {
      const step = await inTransaction(client, () => takeAway(client, each));
      gone += step.gone;
      if (step.isDone || signal.aborted || performance.now() > endMs) break;
      await new Promise((resolve) => setTimeout(resolve, STEP_PAUSE_MS));
    }
  }
  await client.query(
    `delete from daybook.alert where raised_at < clock_timestamp() - interval '${ALERTS_DAYS} days'`,
  );
  await client.query(`delete from graphile_worker._private_jobs
    where attempts >= max_attempts and locked_at is null and updated_at < clock_timestamp() - interval '${JOBS_DAYS} days'`);
  await client.query(THIN_CHECKPOINTS);
  return gone;
}

/**
 * Moves `kept_from` on by as much as some thousand rows are old, and takes away what is before it. The
 * projection's row is locked meanwhile, so that whoever projects, rebuilds or compares sees both or neither.
 */
async function takeAway(
  client: ClientBase,
  { projection: { name, kept }, found_by, keep }: Forgetful,
): Promise<{ gone: number; isDone: boolean }> {
  const [finest, ...coarser] = kept ?? [];
  if (finest === undefined) return { gone: 0, isDone: true };
  const table = `${LIVE_SCHEMA}.${finest.table}`;
  const { rows } = await client.query<{ kept_from: string; target: string }>(
    `select kept_from::text as kept_from, (date_trunc('minute', clock_timestamp()) - $2::interval)::text as target
      from daybook.projection where name = $1 and is_live for update`,
    [name, keep],
  );
  const [state] = rows;
  if (!state) return { gone: 0, isDone: true };
  // The next bound is the time of the row so many further on; at least a millisecond on, should they all be
  // of one moment.
  const next = await client.query<{ bound: string; is_done: boolean }>(
    `select bound::text as bound, bound >= $2::timestamptz as is_done from (
      select least($2::timestamptz, greatest(f.found, $1::timestamptz + interval '1 ms')) as bound from (
        select coalesce((select ${found_by} from ${table} where ${found_by} >= $1::timestamptz
          order by ${found_by} offset ${ROWS_PER_STEP} limit 1), $2::timestamptz) as found) f) b
     where bound > $1::timestamptz`,
    [state.kept_from, state.target],
  );
  const [step] = next.rows;
  if (!step) return { gone: 0, isDone: true };
  await client.query('update daybook.projection set kept_from = $2 where name = $1', [name, step.bound]);
  const { rowCount } = await client.query(
    `delete from ${table} where ${found_by} < $1::timestamptz and ${finest.time} < $1::timestamptz`,
    [step.bound],
  );
  for (const each of coarser)
    await client.query(`delete from ${LIVE_SCHEMA}.${each.table} where ${each.time} < $1::timestamptz`, [
      step.bound,
    ]);
  return { gone: rowCount ?? 0, isDone: step.is_done };
}

async function inTransaction<T>(client: ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query('begin');
  try {
    const result = await work();
    await client.query('commit');
    return result;
  } catch (error) {
    await client.query('rollback');
    throw error;
  }
}

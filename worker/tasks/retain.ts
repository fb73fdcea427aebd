import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { USAGE_HISTORY_KEPT_DAYS, USAGE_MINUTES_KEPT_HOURS } from '#db/projections/bounds.ts';
import { LIVE_SCHEMA, type Projection } from '#db/projections/projection.ts';
import { dropRequestPartition, readRequestPartitions } from '#db/projections/request-partitions.ts';
import { history } from '#db/projections/history.ts';
import { quotas } from '#db/projections/quotas.ts';
import { requests } from '#db/projections/requests.ts';
import { usage } from '#db/projections/usage.ts';
import { countOf, db, rowOf } from '#db/schema/query.ts';
import { deleteOldKeys } from '#db/idempotency/keys.ts';
import { deleteOldPlaces } from '#db/stored/places.ts';

/**
 * Retention: drops partitions and deletes rows that are older than they are kept. The log is not affected.
 * For projections `daybook.projection.kept_from` records the deleted time, so that a rebuild skips the same
 * rows.
 */

/** Rows per transaction, which takes some tens of milliseconds. The projector waits meanwhile. */
const ROWS_PER_STEP = 5_000;
const STEP_PAUSE_MS = 50;
/** The time of a run; the rest is left to the next hour's run. */
const RUN_MS_MAX = 10 * 60_000;

/** Includes the wait for a page being projected; reading old rows may take long on a cold disk. */
export const RETAIN_TIMEOUT_MS = 60_000;

/**
 * Quota windows are kept as long as requests, after their end. A month begins up to 31 days before its end.
 */
const WINDOW_DAYS_MAX = 31;
/** Alerts with their deliveries: far longer than the longest window of an alert. */
const ALERTS_DAYS = 90;
/** Emails of statements: thirteen months of them. */
const STATEMENT_EMAILS_DAYS = 400;
/** Permanently failed jobs are kept for inspection. */
const JOBS_DAYS = 7;

/** The retention of a projection. The projection names the tables, so that a rebuild skips the same rows. */
export type Retention = {
  projection: Projection;
  /**
   * The indexed time column that finds the oldest rows of its first table: never later than the deciding one.
   */
  found_by: string;
  /** How long rows are kept, as a Postgres interval. */
  keep: string;
};

export function retentionsOf(requestRowsDays: number): Retention[] {
  const keep = `${USAGE_MINUTES_KEPT_HOURS} hours`;
  const minutes: Retention = { projection: usage, found_by: 'minute', keep };
  const hours: Retention = {
    projection: history,
    found_by: 'hour',
    keep: `${USAGE_HISTORY_KEPT_DAYS} days`,
  };
  if (requestRowsDays === 0) return [minutes, hours];
  return [
    { projection: requests, found_by: 'accepted_at', keep: `${requestRowsDays} days` },
    { projection: quotas, found_by: 'begins_at', keep: `${requestRowsDays + WINDOW_DAYS_MAX} days` },
    minutes,
    hours,
  ];
}

/**
 * Deletes old rows in steps until none is left, the run's time is over, or `signal` aborts.
 * @returns the number of deleted rows.
 */
export async function retain(
  client: ClientBase,
  all: readonly Retention[],
  signal: AbortSignal,
): Promise<number> {
  const endMs = performance.now() + RUN_MS_MAX;
  let deleted = 0;
  for (const each of all) {
    if (each.projection === requests) deleted += await dropPartitions(client, each.keep, signal, endMs);
    for (;;) {
      const step = await inTransaction(client, () => deleteStep(client, each));
      deleted += step.deleted;
      if (step.isDone || signal.aborted || performance.now() > endMs) break;
      await new Promise((resolve) => setTimeout(resolve, STEP_PAUSE_MS));
    }
  }
  await countOf(
    client,
    db
      .deleteFrom('daybook.alert')
      .where('raised_at', '<', sql<Date>`statement_timestamp() - ${ALERTS_DAYS} * interval '1 day'`),
  );
  await countOf(
    client,
    db
      .deleteFrom('daybook.statement_email')
      .where('ended_at', '<', sql<Date>`statement_timestamp() - ${STATEMENT_EMAILS_DAYS} * interval '1 day'`),
  );
  for (const deleteOld of [deleteOldPlaces, deleteOldKeys])
    while ((await deleteOld(client)) > 0 && !signal.aborted && performance.now() < endMs);
  await client.query(`delete from graphile_worker._private_jobs
    where attempts >= max_attempts and locked_at is null
      and updated_at < statement_timestamp() - interval '${JOBS_DAYS} days'`);
  await client.query('select daybook.thin_checkpoints()');
  return deleted;
}

/** Drops the partitions of requests whose whole time is older than kept. @returns about how many rows. */
async function dropPartitions(
  client: ClientBase,
  keep: string,
  signal: AbortSignal,
  endMs: number,
): Promise<number> {
  // Those of a detached projection are left to its rebuild.
  const live = await rowOf(
    client,
    db
      .selectFrom('daybook.projection')
      .select(sql<Date>`date_trunc('minute', statement_timestamp()) - ${keep}::interval`.as('target'))
      .where('name', '=', 'requests')
      .where('is_live', '=', true),
  );
  const target = live?.target;
  let deleted = 0;
  while (target !== undefined && !signal.aborted && performance.now() < endMs) {
    const dropped = await dropRequestPartition(client, target);
    if (dropped === null) break;
    deleted += dropped;
  }
  return deleted;
}

/**
 * Advances `kept_from` past some thousand rows, and deletes the rows before it. The projection's row is
 * locked meanwhile, so that the projector, a rebuild or a comparison sees both or neither.
 */
async function deleteStep(
  client: ClientBase,
  { projection, found_by, keep }: Retention,
): Promise<{ deleted: number; isDone: boolean }> {
  const { name, kept } = projection;
  const [finest, ...coarser] = kept ?? [];
  if (finest === undefined) return { deleted: 0, isDone: true };
  const table = `${LIVE_SCHEMA}.${finest.table}`;
  const state = await rowOf(
    client,
    db
      .selectFrom('daybook.projection')
      .select([
        sql<string>`kept_from::text`.as('kept_from'),
        sql<string>`(date_trunc('minute', statement_timestamp()) - ${keep}::interval)::text`.as('target'),
      ])
      .where('name', '=', name)
      .where('is_live', '=', true)
      .forUpdate(),
  );
  if (!state) return { deleted: 0, isDone: true };
  // Rows of a partition go with it, all at once.
  const first = projection === requests ? (await readRequestPartitions(client))[0]?.from : undefined;
  // The next bound is the time of the row ROWS_PER_STEP further on, and at least 1 ms later, should all
  // rows have the same time.
  const from = sql<Date>`${state.kept_from}::timestamptz`;
  const column = sql.raw(found_by);
  const bounds = sql<{ bound: Date; target: Date }>`(
    select t.target, least(t.target, greatest(f.found, ${from} + interval '1 ms')) as bound
      from (select least(${state.target}::timestamptz, ${first ?? null}::timestamptz) as target) t, lateral (
        select coalesce((select ${column} from ${sql.raw(table)} where ${column} >= ${from}
          order by ${column} offset ${sql.lit(ROWS_PER_STEP)} limit 1), t.target) as found) f)`;
  const next = db
    .selectFrom(bounds.as('b'))
    .select(({ cast, ref }) => [
      cast<string>('bound', 'text').as('bound'),
      sql<boolean>`${ref('bound')} >= ${ref('target')}`.as('is_done'),
    ])
    .where('bound', '>', from);
  const step = await rowOf(client, next);
  if (!step) return { deleted: 0, isDone: true };
  await countOf(
    client,
    db.updateTable('daybook.projection').set({ kept_from: step.bound }).where('name', '=', name),
  );
  const { rowCount } = await client.query(
    `delete from ${table} where ${found_by} < $1::timestamptz and ${finest.time} < $1::timestamptz`,
    [step.bound],
  );
  for (const each of coarser)
    await client.query(`delete from ${LIVE_SCHEMA}.${each.table} where ${each.time} < $1::timestamptz`, [
      step.bound,
    ]);
  return { deleted: rowCount ?? 0, isDone: step.is_done };
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

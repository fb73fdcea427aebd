import { sql } from 'kysely';
import { type ClientBase, DatabaseError } from 'pg';
import { setTimeout as wait } from 'node:timers/promises';
import { StoreError } from '#db/postgres/connect.ts';
import { partitionsOf } from '#db/schema/catalog.ts';
import { db, rowOf, rowsOf } from '#db/schema/query.ts';
import { LIVE_SCHEMA } from '#db/projections/projection.ts';

/**
 * Partitions of `projection.request` by time: retention drops one instead of deleting millions of rows
 * one by one. The partition key is the id, a UUIDv7, so that the primary key stays the id alone. Lists order
 * by `accepted_at` and merge the partitions' indexes, so a few partitions are better than many.
 */

/** A part of the table: ids made from one time on, and before another one. */
export type RequestPartition = { name: string; from: Date; to: Date };

const DAY_MS = 86_400_000;
/** Rows that are kept fill about so many partitions. */
const PARTITIONS_KEPT = 13;
const DAYS_MAX = 28;

/** How many days a partition has, for rows that are kept for so many days; 0: forever. */
export function partitionDays(keptDays: number): number {
  return keptDays === 0 ? DAYS_MAX : Math.min(DAYS_MAX, Math.max(1, Math.floor(keptDays / PARTITIONS_KEPT)));
}

/** Where a partition is attached or dropped, readers queue behind it for no longer than this. */
const LOCK_TIMEOUT_MS = 1_000;
const ATTEMPTS_MAX = 20;
const PAUSE_MS = 500;
const LOCK_NOT_AVAILABLE = '55P03';

/** The default partition has none. */
const BOUNDS = sql<[from: string, to: string] | null>`regexp_match(pg_get_expr(c.relpartbound, c.oid),
  $r$FROM [(]'([^']+)'[)] TO [(]'([^']+)'[)]$r$)`;

/** The time in a version 7 UUID, given as text: uuid_extract_timestamp() needs PostgreSQL 17. */
const timeOf = (uuid: string) =>
  sql<Date>`to_timestamp(('x' || lpad(left(replace(${sql.raw(uuid)}, '-', ''), 12), 16, '0'))::bit(64)::bigint
    / 1000.0)`;

/** The partitions by time, the oldest first. */
export async function readRequestPartitions(
  client: ClientBase,
  schema: string = LIVE_SCHEMA,
): Promise<RequestPartition[]> {
  const partitions = partitionsOf(`${schema}.request`).clearSelect().select('c.relname as name');
  const query = db
    .selectFrom(partitions.select(BOUNDS.as('bounds')).as('p'))
    .select('name')
    .select([timeOf('bounds[1]').as('from'), timeOf('bounds[2]').as('to')])
    .where('bounds', 'is not', null)
    .orderBy(sql`bounds[1]`);
  return rowsOf(client, query);
}

// Any process that changes the partitions locks the projection's row, as the projector does for a page.
const LOCK = "select kept_from from daybook.projection where name = 'requests' for update";

type PartitionOptions = {
  schema?: string;
  /** The width of new partitions. */
  days: number;
  /** Where the first partition begins at the latest; now unless given. */
  from?: Date;
  nowMs?: number;
};

/**
 * Creates the partitions that are missing up to one ahead of now. Rows that were inserted before their
 * partition existed move into it.
 * @returns how many it created.
 * @throws {StoreError} when readers kept the table locked.
 */
export async function makeRequestPartitions(
  client: ClientBase,
  { schema = LIVE_SCHEMA, days, from, nowMs = Date.now() }: PartitionOptions,
): Promise<number> {
  const width = days * DAY_MS;
  const floor = (ms: number): number => Math.floor(ms / width) * width;
  return patiently(client, async () => {
    const last = (await readRequestPartitions(client, schema)).at(-1);
    let begin = last?.to.getTime() ?? floor(from?.getTime() ?? nowMs);
    let made = 0;
    for (; begin < nowMs + width; made++) {
      // The next multiple of the width, which may have changed since the last one.
      const end = floor(begin) + width;
      await attach(client, schema, new Date(begin), new Date(end));
      begin = end;
    }
    return made;
  });
}

/**
 * Partitions an empty copy of the table like the live one. Rows below the first partition go to the default
 * one, where retention deletes them.
 */
export async function partitionCopy(client: ClientBase, schema: string): Promise<void> {
  const [first] = await readRequestPartitions(client);
  // Without one the worker makes them, and moves the rows.
  if (first === undefined) return;
  const days = Math.max(1, Math.round((first.to.getTime() - first.from.getTime()) / DAY_MS));
  await makeRequestPartitions(client, { schema, days, from: first.from });
}

async function attach(client: ClientBase, schema: string, from: Date, to: Date): Promise<void> {
  const name = `${schema}.request_${from.toISOString().slice(0, 10).replaceAll('-', '')}`;
  const bounds = [firstId(from), firstId(to)] as const;
  await client.query(`create table ${name} (like ${schema}.request including all) with (fillfactor = 80)`);
  await client.query(
    `with moved as (
        delete from ${schema}.request_default where request >= $1 and request < $2 returning *)
      insert into ${name} select * from moved`,
    [...bounds],
  );
  await client.query(
    `alter table ${schema}.request attach partition ${name}
      for values from ('${bounds[0]}') to ('${bounds[1]}')`,
  );
}

/** The smallest UUIDv7 of a time. */
function firstId(at: Date): string {
  const hex = at.getTime().toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-000000000000`;
}

/**
 * Drops the oldest partition if all of its time is before `target`. Calls that ended later, or still run,
 * stay in the default partition, so that exactly the calls that ended before `kept_from` are gone.
 * @returns about how many rows went with it; null if no partition is old enough.
 * @throws {StoreError} when readers kept the table locked.
 */
export async function dropRequestPartition(client: ClientBase, target: Date): Promise<number | null> {
  return patiently(client, async () => {
    const [oldest, next] = await readRequestPartitions(client);
    // The newest one stays, since it says where the next one begins.
    if (oldest === undefined || next === undefined || oldest.to > target) return null;
    const table = `${LIVE_SCHEMA}.${oldest.name}`;
    const estimate = db
      .selectFrom('pg_catalog.pg_class')
      .select('reltuples')
      .where('oid', '=', sql<number>`${table}::regclass`);
    const rows = Math.max(0, (await rowOf(client, estimate))?.reltuples ?? 0);
    await client.query(`alter table ${LIVE_SCHEMA}.request detach partition ${table}`);
    await client.query(
      `insert into ${LIVE_SCHEMA}.request select * from ${table} where (ended_at < $1) is not true`,
      [oldest.to],
    );
    await client.query(`drop table ${table}`);
    const gone = await client.query(
      `delete from ${LIVE_SCHEMA}.request_default where accepted_at < $1 and ended_at < $1`,
      [oldest.to],
    );
    await client.query(
      "update daybook.projection set kept_from = greatest(kept_from, $1) where name = 'requests'",
      [oldest.to],
    );
    return rows + (gone.rowCount ?? 0);
  });
}

/**
 * Runs a change of partitions in a transaction, again and again while a reader holds a lock that it needs:
 * all other readers would queue behind a change that waits.
 */
async function patiently<T>(client: ClientBase, work: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    await client.query('begin');
    try {
      await client.query(LOCK);
      await client.query(
        `set local lock_timeout = ${LOCK_TIMEOUT_MS}; set local client_min_messages = warning`,
      );
      const result = await work();
      await client.query('commit');
      return result;
    } catch (error) {
      await client.query('rollback');
      if (!(error instanceof DatabaseError) || error.code !== LOCK_NOT_AVAILABLE) throw error;
      if (attempt === ATTEMPTS_MAX)
        throw new StoreError('readers kept projection.request locked; its partitions are unchanged', {
          cause: error,
        });
    }
    await wait(PAUSE_MS);
  }
}

import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { primaryKey } from '#db/schema/catalog.ts';
import { db, rowsOf } from '#db/schema/query.ts';
import { PROJECTIONS } from '#db/projections/projections.ts';

/**
 * The tables of a backup. Every table must be in one of these lists: a test fails when a migration adds a
 * table that is in none.
 */

/** Tables whose rows can't be derived, in an order in which foreign keys allow loading them. */
export const BASE_TABLES: readonly string[] = [
  'daybook.install',
  'daybook.instance',
  'daybook.log_partition',
  'daybook.log',
  'daybook.log_batch',
  'daybook.control_event',
  'daybook.correction',
  'daybook.stream_head',
  'daybook.log_node',
  'daybook.checkpoint',
  'daybook.cosignature',
  'daybook.allowance',
  'daybook.lease',
  'daybook.projection',
  'daybook.alert_destination',
  'daybook.alert',
  'daybook.alert_delivery',
  'daybook.alert_attempt',
  'daybook.alert_look',
  'daybook.sink',
  'daybook.stored_object',
  'daybook.background_response',
  'daybook.batch',
  'daybook.batch_line',
  'daybook.member',
  'daybook.identity',
  'daybook.token_exchange',
  'daybook.provider_secret',
  'daybook.secret_use',
  'daybook.credential',
  'daybook.attribution_key',
  'daybook.attribution_erased',
  'daybook.idempotency_key',
  'daybook.reconciliation_report',
  'daybook.statement_schedule',
  'daybook.statement_recipient',
  'daybook.statement_email',
];

/**
 * Tables of the projections. A restore rebuilds them from the log, which keeps a backup small. If a part of
 * the log is archived they can't be rebuilt, so the backup includes them.
 */
export const PROJECTION_TABLES: readonly string[] = [
  'daybook.parked_event',
  ...PROJECTIONS.flatMap(({ tables }) => tables.map((table) => `projection.${table}`)),
];

/** Tables that are not backed up, and why. */
export const EXCLUDED_TABLES: ReadonlyMap<string, string> = new Map([
  ['daybook.session', 'a restore ends all sessions, and a stolen backup grants none'],
  ['daybook.link', 'one-time links become invalid'],
  ['daybook.attempt', 'sign-in attempts are counted for 15 minutes only'],
  [
    'daybook.attribution_value',
    'erasing a value must erase it everywhere; each is stored again with its next call',
  ],
  ['daybook.idempotent_reply', 'replies are kept for a day, and erasing one must erase it everywhere'],
  ['daybook.reading', 'readings of the log that are not in it yet: at most a minute of them'],
  ['daybook.call_progress', 'what instances report of running calls; a restore charges their reservations'],
  ['daybook.queue_pool', 'jobs are not backed up, nor their locks'],
  ['daybook.job_status', 'jobs are not backed up, nor their ends'],
]);

/**
 * Schemas that are not backed up: the job queue, locks, projections being rebuilt, and the applied
 * migrations, which the manifest records.
 */
export const EXCLUDED_SCHEMAS: readonly string[] = [
  'graphile_worker',
  'projection_build',
  'daybook_migrations',
  'daybook_lock',
];

/** Projection tables are owned by the worker's role, all others by the owner. */
export const roleFor = (table: string): string =>
  PROJECTION_TABLES.includes(table) ? 'set local role daybook_worker' : 'reset role';

/** A table with the columns that are copied. Generated columns are computed again. */
export type Table = { name: string; columns: string[]; key: string[] };

/** Describes those of these tables that exist in this database. */
export async function describeTables(client: ClientBase, names: readonly string[]): Promise<Table[]> {
  const listed = sql<{ name: string; ordinal: string }>`unnest(${names}::text[]) with ordinality`;
  const oid = sql<number>`to_regclass(t.name)`;
  const columns = db
    .selectFrom('pg_catalog.pg_attribute')
    .select('attname')
    .where('attrelid', '=', oid)
    .where('attnum', '>', 0)
    .where('attisdropped', '=', false)
    .where('attgenerated', '=', '')
    .orderBy('attnum');
  const query = db
    .selectFrom(listed.as<'t'>(sql`t(name, ordinal)`))
    .select('t.name')
    .select([
      sql<string[]>`array(${columns})::text[]`.as('columns'),
      sql<string[]>`array(${primaryKey(oid)})::text[]`.as('key'),
    ])
    .where(oid, 'is not', null)
    .orderBy('t.ordinal');
  return rowsOf(client, query);
}

const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ');

/** The rows in the order of the primary key, so that equal tables have equal text. */
export const copyOutSql = ({ name, columns, key }: Table): string =>
  `copy (select ${quoted(columns)} from ${name} order by ${quoted(key)}) to stdout`;
export const copyInSql = ({ name, columns }: Pick<Table, 'name' | 'columns'>): string =>
  `copy ${name} (${quoted(columns)}) from stdin`;

/**
 * The output format of all values in a backup, independent of the login's settings, for the rest of a
 * transaction. Sorting is disabled, since the primary key already has the log in order.
 */
export const SESSION_FORMAT = `set local timezone = 'UTC'; set local datestyle = 'ISO'; set local
  intervalstyle = 'postgres'; set local bytea_output = 'hex';
  set local extra_float_digits = 1; set local client_encoding = 'UTF8'; set local enable_sort = off`;

import type { ClientBase } from 'pg';
import { PROJECTIONS } from '#db/projections/projections.ts';

/**
 * What a backup holds. Every table there is stands in one of these lists: a test fails when a
 * migration adds one that nobody has decided on.
 */

/**
 * Whose rows nothing else can bring back, in an order in which they can be loaded: what is referred to comes
 * first.
 */
export const KEPT: readonly string[] = [
  'daybook.install',
  'daybook.instance',
  'daybook.log_partition',
  'daybook.log_kept',
  'daybook.log',
  'daybook.log_batch',
  'daybook.stream_head',
  'daybook.log_node',
  'daybook.checkpoint',
  'daybook.cosignature',
  'daybook.allowance',
  'daybook.lease',
  'daybook.projection',
  'daybook.webhook',
  'daybook.alert',
  'daybook.webhook_delivery',
  'daybook.webhook_attempt',
  'daybook.alert_look',
  'daybook.member',
  'daybook.secret_use',
  'daybook.credential',
];

/**
 * The figures. They are made anew from the log, which makes a backup smaller and a restore a proof of
 * it. Where a part of the log is in its archive that can't be done, and they go along.
 */
export const FIGURES: readonly string[] = [
  'daybook.parked_event',
  ...PROJECTIONS.flatMap(({ tables }) => tables.map((table) => `projection.${table}`)),
];

/** What stays behind, and why. */
export const LEFT_OUT: ReadonlyMap<string, string> = new Map([
  ['daybook.session', 'after a restore nobody is signed in: a stolen backup signs nobody in either'],
  ['daybook.link', 'a link that lets somebody in once has to be made anew'],
  ['daybook.attempt', 'attempts to sign in are counted for a quarter of an hour'],
  ['daybook.queue_pool', 'jobs stay behind, and so does who held them'],
]);

/**
 * Schemas that stay behind as a whole: the job queue, copies of figures in the making, and which migrations
 * were applied, which the manifest tells.
 */
export const SCHEMAS_LEFT_OUT: readonly string[] = [
  'graphile_worker',
  'projection_build',
  'daybook_migrations',
];

/** The figures are the worker's own tables, whom the owner may act as; all else is the owner's. */
export const roleFor = (table: string): string =>
  FIGURES.includes(table) ? 'set local role daybook_worker' : 'reset role';

/** A table with the columns that are copied. Those that Postgres computes are left out: it does so again. */
export type Table = { name: string; columns: string[]; key: string[] };

const DESCRIBE = `select t.name,
    array(select attname::text from pg_attribute where attrelid = to_regclass(t.name) and attnum > 0 and not attisdropped and attgenerated = '' order by attnum) as columns,
    array(select a.attname::text from pg_index i join pg_attribute a on a.attrelid = i.indrelid and a.attnum = any(i.indkey)
      where i.indrelid = to_regclass(t.name) and i.indisprimary order by array_position(i.indkey::int2[], a.attnum)) as key
  from unnest($1::text[]) with ordinality as t(name, ordinal) where to_regclass(t.name) is not null order by t.ordinal`;

/** Those of these tables that this database has. */
export async function describeTables(client: ClientBase, names: readonly string[]): Promise<Table[]> {
  const { rows } = await client.query<Table>(DESCRIBE, [names]);
  return rows;
}

const quoted = (names: readonly string[]): string => names.map((name) => `"${name}"`).join(', ');

/** A table's rows in the order of its key, so that the same rows are the same text. */
export const copyOutSql = ({ name, columns, key }: Table): string =>
  `copy (select ${quoted(columns)} from ${name} order by ${quoted(key)}) to stdout`;
export const copyInSql = ({ name, columns }: Pick<Table, 'name' | 'columns'>): string =>
  `copy ${name} (${quoted(columns)}) from stdin`;

/**
 * The spelling of all values in a backup, whatever the login prefers, for the rest of a transaction.
 * Sorting the log would take as much space again as it does; its key has it in order.
 */
export const SPELLING = `set local timezone = 'UTC'; set local datestyle = 'ISO'; set local intervalstyle = 'postgres'; set local bytea_output = 'hex';
  set local extra_float_digits = 1; set local client_encoding = 'UTF8'; set local enable_sort = off`;

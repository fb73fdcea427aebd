import { type Expression, sql } from 'kysely';
import { db } from '#db/schema/query.ts';

/** Queries of PostgreSQL's catalog. */

/** The names of a table's primary key columns, in the order of the key. @param table the table's oid. */
export const primaryKey = (table: Expression<number | null>) =>
  db
    .selectFrom('pg_catalog.pg_index as i')
    .innerJoin('pg_catalog.pg_attribute as a', (join) =>
      join.onRef('a.attrelid', '=', 'i.indrelid').on(sql<boolean>`a.attnum = any(i.indkey)`),
    )
    .select('a.attname')
    .where('i.indrelid', '=', table)
    .where('i.indisprimary', '=', true)
    .orderBy(({ ref }) => sql`array_position(${ref('i.indkey')}::int2[], ${ref('a.attnum')})`);

/**
 * The partitions of a table: their `name`, and `path` as SQL that is quoted and has the schema unless the
 * search path finds it.
 * @param table the name with its schema.
 */
export const partitionsOf = (table: string) =>
  db
    .selectFrom('pg_catalog.pg_inherits as i')
    .innerJoin('pg_catalog.pg_class as c', 'c.oid', 'i.inhrelid')
    .select(['c.relname as name', 'c.relpartbound as bounds'])
    .select(({ ref }) => sql<string>`${ref('i.inhrelid')}::regclass::text`.as('path'))
    .where('i.inhparent', '=', sql<number>`to_regclass(${table})`);

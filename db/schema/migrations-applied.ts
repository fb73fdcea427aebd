import type { Client } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';

/** The bookkeeping has a schema of its own: the first migration is what creates `daybook`. */
export const BOOKKEEPING_SCHEMA = 'daybook_migrations';

/** The names of the migrations that a database has had, in order; none where it has no bookkeeping yet. */
export async function appliedMigrations(client: Client): Promise<string[]> {
  const table = `${BOOKKEEPING_SCHEMA}.kysely_migration`;
  const { rows } = await client.query<{ is_there: boolean }>(
    'select to_regclass($1) is not null as is_there',
    [table],
  );
  if (rows[0]?.is_there !== true) return [];
  const applied = await client.query<{ name: string }>(`select name from ${table} order by name collate "C"`);
  return applied.rows.map(({ name }) => name);
}

/** What a starter is told whose database can't be brought up to this version. */
export function cannotMigrate(error: Error): StoreError {
  return new StoreError(`the database cannot be migrated: ${error.message}`, { cause: error });
}

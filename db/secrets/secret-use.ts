import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { countOf, db, rowsOf } from '#db/schema/query.ts';

/** A secret of a key, by the part that people see, and its last use. */
export type SecretUsed = { key: string; last4: string; usedAt: Date };

/** An overlap lasts 30 days at most. Long after it, which of two secrets was used last is of no interest. */
const RETENTION = '180 days';

/**
 * Records when secrets were used; of several reports the latest use counts, from whichever server. Deletes
 * rows past their retention at the same time.
 */
export async function recordSecretUse(client: ClientBase, reported: readonly SecretUsed[]): Promise<void> {
  if (reported.length === 0) return;
  // All servers lock the rows in one order, so that they can't deadlock.
  const uses = reported.toSorted(
    (one, other) => compare(one.key, other.key) || compare(one.last4, other.last4),
  );
  const columns = [
    uses.map(({ key }) => key),
    uses.map(({ last4 }) => last4),
    uses.map(({ usedAt }) => usedAt),
  ];
  await client.query(
    `insert into daybook.secret_use as t (key, last4, used_at)
      select * from unnest($1::text[], $2::text[], $3::timestamptz[])
      on conflict (key, last4) do update set used_at = greatest(t.used_at, excluded.used_at)`,
    columns,
  );
  const expired = db
    .selectFrom('daybook.secret_use')
    .select(sql`ctid`.as('ctid'))
    .where('used_at', '<', sql<Date>`statement_timestamp() - ${RETENTION}::interval`)
    .forUpdate()
    .skipLocked();
  await countOf(
    client,
    db.deleteFrom('daybook.secret_use').where(sql<boolean>`ctid = any(array(${expired}))`),
  );
}

const compare = (one: string, other: string): number => (one < other ? -1 : Number(one > other));

/** The last uses of the secrets of these keys, recorded only during rotations. */
export async function readSecretUse(client: ClientBase, keys: readonly string[]): Promise<SecretUsed[]> {
  return rowsOf(
    client,
    db
      .selectFrom('daybook.secret_use')
      .select(['key', 'last4', 'used_at as usedAt'])
      .where((eb) => eb('key', '=', eb.fn.any(sql.val(keys)))),
  );
}

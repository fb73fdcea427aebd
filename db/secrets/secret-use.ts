import type { ClientBase } from 'pg';

/** A secret of a key, by what people see of it, and when it was last used. */
export type SecretUsed = { key: string; last4: string; usedAt: Date };

/**
 * An overlap lasts 30 days at most. Longer after it nobody asks which of two secrets of a key was used last.
 */
const KEPT = '180 days';

/**
 * Writes down when secrets were used. Of several reports the latest use counts, whoever saw it.
 * What is long over goes at the same time.
 */
export async function recordSecretUse(client: ClientBase, reported: readonly SecretUsed[]): Promise<void> {
  if (reported.length === 0) return;
  // All servers take the rows in one order, so that none waits for another that waits for it.
  const uses = reported.toSorted((one, other) => compare(one.key, other.key) || compare(one.last4, other.last4));
  await client.query(
    `insert into daybook.secret_use as t (key, last4, used_at) select * from unnest($1::text[], $2::text[], $3::timestamptz[])
      on conflict (key, last4) do update set used_at = greatest(t.used_at, excluded.used_at)`,
    [uses.map(({ key }) => key), uses.map(({ last4 }) => last4), uses.map(({ usedAt }) => usedAt)],
  );
  await client.query(
    `delete from daybook.secret_use where ctid = any(array(
      select ctid from daybook.secret_use where used_at < clock_timestamp() - $1::interval for update skip locked))`,
    [KEPT],
  );
}

const compare = (one: string, other: string): number => (one < other ? -1 : Number(one > other));

/**
 * When the secrets of these keys were used, as far as it was noted: while a rotation of the key was under
 * way.
 */
export async function readSecretUse(client: ClientBase, keys: readonly string[]): Promise<SecretUsed[]> {
  const { rows } = await client.query<SecretUsed>('select key, last4, used_at as "usedAt" from daybook.secret_use where key = any($1)', [keys]);
  return rows;
}

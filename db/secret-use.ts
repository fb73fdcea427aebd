import type { ClientBase } from 'pg';

/** A secret of a key, by what people see of it, and when it was last used. */
export type SecretUsed = { key: string; last4: string; usedAt: Date };

/** Writes down when secrets were used. Of several reports the latest use counts, whoever saw it. */
export async function writeSecretUse(client: ClientBase, uses: readonly SecretUsed[]): Promise<void> {
  if (uses.length === 0) return;
  await client.query(
    `insert into daybook.secret_use as t (key, last4, used_at) select * from unnest($1::text[], $2::text[], $3::timestamptz[])
      on conflict (key, last4) do update set used_at = greatest(t.used_at, excluded.used_at)`,
    [uses.map(({ key }) => key), uses.map(({ last4 }) => last4), uses.map(({ usedAt }) => usedAt)],
  );
}

/** When the secrets of these keys were used, as far as it was noted: while a rotation of the key was under way. */
export async function readSecretUse(client: ClientBase, keys: readonly string[]): Promise<SecretUsed[]> {
  const { rows } = await client.query<SecretUsed>('select key, last4, used_at as "usedAt" from daybook.secret_use where key = any($1)', [keys]);
  return rows;
}

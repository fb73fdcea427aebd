import type { ClientBase } from 'pg';
import { recordExpiry } from '#db/log/expire-key.ts';

/** A key whose expiry was set in the meantime is found after at most this time. */
const LOOK_MS = 5_000;
/** Keys per query; with more, which is rare, the next query follows at once. */
const KEYS_MAX = 200;

/**
 * The projection finds candidates, and the key's own events decide: a projection behind the log delays.
 */
export const DUE_KEYS = `select id, expires_at::text as expires_at from projection.key
  where expired_at is null and revoked_at is null and expires_at <= statement_timestamp()
    and (expires_at, id) > ($1::timestamptz, $2)
  order by expires_at, id limit ${KEYS_MAX}`;
export const NEXT_KEY = `select
    extract(epoch from min(expires_at) - statement_timestamp())::float8 * 1000 as ms
  from projection.key
  where expired_at is null and revoked_at is null and expires_at > statement_timestamp()`;

type Due = { id: string; expires_at: string };

/**
 * Records the expiry of each key that has expired.
 * @returns the milliseconds until the next run.
 */
export async function expireKeys(
  client: ClientBase,
  writer: { instance: number; nextBatchNo(): number },
): Promise<number> {
  let last: Due | undefined = { id: '', expires_at: '-infinity' };
  while (last) {
    const { rows }: { rows: Due[] } = await client.query<Due>(DUE_KEYS, [last.expires_at, last.id]);
    for (const { id } of rows) await recordExpiry(client, id, writer);
    last = rows.length === KEYS_MAX ? rows.at(-1) : undefined;
  }
  const { rows } = await client.query<{ ms: number | null }>(NEXT_KEY);
  return Math.max(0, Math.min(LOOK_MS, rows[0]?.ms ?? LOOK_MS));
}

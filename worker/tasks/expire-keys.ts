import type { ClientBase } from 'pg';
import { recordExpiry } from '#db/log/expire-key.ts';

/** A key that was made or given another end meanwhile is found so soon. */
const LOOK_MS = 5_000;
/** Keys in one look; of more, which is rare, the next ones are looked for at once. */
const KEYS_MAX = 200;

/**
 * The projection says where to look, and the key's own events decide: a projection that is behind costs time
 * only.
 */
const DUE = `select id, expires_at::text as expires_at from projection.key
  where expired_at is null and revoked_at is null and expires_at <= clock_timestamp() and (expires_at, id) > ($1::timestamptz, $2)
  order by expires_at, id limit ${KEYS_MAX}`;
const NEXT = `select extract(epoch from min(expires_at) - clock_timestamp())::float8 * 1000 as ms from projection.key
  where expired_at is null and revoked_at is null and expires_at > clock_timestamp()`;

type Due = { id: string; expires_at: string };

/**
 * Puts down the end of each key that has come to it.
 * @returns in how many milliseconds the next one is due, or is to be looked for.
 */
export async function expireKeys(
  client: ClientBase,
  writer: { instance: number; nextBatchNo(): number },
): Promise<number> {
  let last: Due | undefined = { id: '', expires_at: '-infinity' };
  while (last) {
    const { rows }: { rows: Due[] } = await client.query<Due>(DUE, [last.expires_at, last.id]);
    for (const { id } of rows) await recordExpiry(client, id, writer);
    last = rows.length === KEYS_MAX ? rows.at(-1) : undefined;
  }
  const { rows } = await client.query<{ ms: number | null }>(NEXT);
  return Math.max(0, Math.min(LOOK_MS, rows[0]?.ms ?? LOOK_MS));
}

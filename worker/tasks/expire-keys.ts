import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { recordExpiry } from '#db/log/expire-key.ts';
import { db, onlyRowOf, rowsOf } from '#db/schema/query.ts';

/** A key whose expiry was set in the meantime is found after at most this time. */
const LOOK_MS = 5_000;
/** Keys per query; with more, which is rare, the next query follows at once. */
const KEYS_MAX = 200;

/**
 * The projection finds candidates, and the key's own events decide: a projection behind the log delays.
 */
export const dueKeys = (after: Due) =>
  db
    .selectFrom('projection.key as k')
    .select(['k.id', sql<string>`k.expires_at::text`.as('expires_at')])
    .where('k.expired_at', 'is', null)
    .where('k.revoked_at', 'is', null)
    .where('k.expires_at', '<=', sql<Date>`statement_timestamp()`)
    .where(({ eb, refTuple, tuple }) =>
      eb(refTuple('k.expires_at', 'k.id'), '>', tuple(sql<Date>`${after.expires_at}::timestamptz`, after.id)),
    )
    .orderBy('k.expires_at')
    .orderBy('k.id')
    .limit(KEYS_MAX);
export const nextKey = () =>
  db
    .selectFrom('projection.key')
    .select(
      sql<number | null>`extract(epoch from min(expires_at) - statement_timestamp())::float8 * 1000`.as('ms'),
    )
    .where('expired_at', 'is', null)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', sql<Date>`statement_timestamp()`);

/** The time as text, which has the microseconds that a `Date` lacks. */
type Due = { id: string; expires_at: string };

export const FIRST_DUE: Due = { id: '', expires_at: '-infinity' };

/**
 * Records the expiry of each key that has expired.
 * @returns the milliseconds until the next run.
 */
export async function expireKeys(
  client: ClientBase,
  writer: { instance: number; nextBatchNo(): number },
): Promise<number> {
  let last: Due | undefined = FIRST_DUE;
  while (last) {
    const rows: Due[] = await rowsOf(client, dueKeys(last));
    for (const { id } of rows) await recordExpiry(client, id, writer);
    last = rows.length === KEYS_MAX ? rows.at(-1) : undefined;
  }
  const { ms } = await onlyRowOf(client, nextKey());
  return Math.max(0, Math.min(LOOK_MS, ms ?? LOOK_MS));
}

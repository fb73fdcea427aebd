import { sql } from 'kysely';
import { countOf, db, rowOf, rowsOf, type Queryable } from '#db/schema/query.ts';

/** Exchanged tokens of workloads: the only queries on `daybook.token_exchange`. */

export type Exchange = {
  id: string;
  key: string;
  /** What makes the token unique; null: it may be exchanged again. */
  token: Buffer | null;
  expiresAt: Date;
  keptUntil: Date;
};

/** @returns false if the token was exchanged before; nothing is written then. */
export async function insertExchange(
  client: Queryable,
  { id, key, token, expiresAt, keptUntil }: Exchange,
): Promise<boolean> {
  const query = db
    .insertInto('daybook.token_exchange')
    .values({ id, key, token, expires_at: expiresAt, kept_until: keptUntil })
    .onConflict((conflict) => conflict.doNothing());
  return (await countOf(client, query)) === 1;
}

/** An exchange that wasn't recorded in the log: its token may be exchanged again. */
export async function deleteExchange(client: Queryable, id: string): Promise<void> {
  await countOf(client, db.deleteFrom('daybook.token_exchange').where('id', '=', id));
}

/** Rows of a key: of live short-lived keys, and of tokens that may still be replayed. */
export async function countExchanges(client: Queryable, key: string): Promise<number> {
  const query = db
    .selectFrom('daybook.token_exchange')
    .select((eb) => eb.fn.countAll<string>().as('count'))
    .where('key', '=', key);
  return Number((await rowOf(client, query))?.count ?? 0);
}

export type LiveExchange = { id: string; created_at: Date; expires_at: Date };

/** The short-lived keys of a key that are valid now, the newest first. */
export function liveExchanges(client: Queryable, key: string, limit: number): Promise<LiveExchange[]> {
  const query = db
    .selectFrom('daybook.token_exchange')
    .select(['id', 'created_at', 'expires_at'])
    .where('key', '=', key)
    .where('expires_at', '>', sql<Date>`statement_timestamp()`)
    .orderBy('created_at', 'desc')
    .orderBy('id')
    .limit(limit);
  return rowsOf(client, query);
}

/** How many short-lived keys each key has now. */
export async function countLiveExchanges(client: Queryable): Promise<Map<string, number>> {
  const query = db
    .selectFrom('daybook.token_exchange')
    .select((eb) => ['key', eb.fn.countAll<string>().as('count')])
    .where('expires_at', '>', sql<Date>`statement_timestamp()`)
    .groupBy('key');
  return new Map((await rowsOf(client, query)).map(({ key, count }) => [key, Number(count)]));
}

/** Deletes the rows of tokens and keys that have expired. */
export async function deleteExpiredExchanges(client: Queryable): Promise<void> {
  const query = db
    .deleteFrom('daybook.token_exchange')
    .where('kept_until', '<', sql<Date>`statement_timestamp()`);
  await countOf(client, query);
}

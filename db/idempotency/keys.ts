import { sql } from 'kysely';
import { DELETED_ROWS_MAX, KEY_HOURS, REPLY_HOURS } from '#db/idempotency/bounds.ts';
import { countOf, db, prepare, type Queryable, rowOf, rowsOf } from '#db/schema/query.ts';

/** All queries on idempotency keys and kept replies. */

/** The channel on which the end of a request that another server waits for is announced. */
export const IDEMPOTENCY_CHANNEL = 'daybook_idempotency';

/** The states of a key's row. */
export const KEY_STATES = { running: 0, ended: 1, lost: 2 } as const;

/** A claim of a key by a request that an instance is about to accept. */
export type KeyClaim = {
  digest: Buffer;
  account: string;
  fingerprint: Buffer;
  request: string;
  instance: number;
  position: number;
};

/** The claim that a key has. `isClosed`: its instance has ended. */
export type FoundClaim = {
  request: string;
  fingerprint: Buffer;
  state: number;
  instance: number;
  isClosed: boolean;
  hasReply: boolean;
};

/** A reply as it is stored. */
export type ReplyRow = {
  request: string;
  generation: number;
  pseudonyms: readonly string[];
  sealed: Buffer;
};

const isOlderThan = (column: string, hours: number) =>
  sql<boolean>`${sql.ref(column)} < statement_timestamp() - ${sql.lit(hours)} * interval '1 hour'`;

const insertClaim = prepare<KeyClaim, { request: string }>('claim_idempotency_key', (values) =>
  db
    .insertInto('daybook.idempotency_key')
    .columns(['digest', 'account', 'fingerprint', 'request', 'instance', 'position'])
    .expression(
      db
        .selectFrom('daybook.instance as i')
        .select([
          sql<Buffer>`${values.digest}::bytea`.as('digest'),
          sql<string>`${values.account}::text`.as('account'),
          sql<Buffer>`${values.fingerprint}::bytea`.as('fingerprint'),
          sql<string>`${values.request}::uuid`.as('request'),
          'i.id',
          sql<string>`${values.position}::bigint`.as('position'),
        ])
        .where('i.id', '=', values.instance)
        .where('i.dead_at', 'is', null),
    )
    .onConflict((conflict) =>
      conflict
        .column('digest')
        .doUpdateSet((eb) => ({
          account: eb.ref('excluded.account'),
          fingerprint: eb.ref('excluded.fingerprint'),
          request: eb.ref('excluded.request'),
          instance: eb.ref('excluded.instance'),
          position: eb.ref('excluded.position'),
          state: KEY_STATES.running,
          is_awaited: false,
          created_at: eb.ref('excluded.created_at'),
        }))
        .where(isOlderThan('daybook.idempotency_key.created_at', KEY_HOURS)),
    )
    .returning('request'),
);

const selectClaim = prepare<Pick<KeyClaim, 'digest'>, FoundClaim>('find_idempotency_key', ({ digest }) =>
  db
    .selectFrom('daybook.idempotency_key as k')
    .innerJoin('daybook.instance as i', 'i.id', 'k.instance')
    .leftJoin('daybook.idempotent_reply as r', 'r.request', 'k.request')
    .select(['k.request', 'k.fingerprint', 'k.state', 'k.instance'])
    .select((eb) => [
      eb('i.closed_at', 'is not', null).$castTo<boolean>().as('isClosed'),
      eb('r.request', 'is not', null).$castTo<boolean>().as('hasReply'),
    ])
    .where('k.digest', '=', digest),
);

/** Claims a key, unless it is claimed. @returns whether the claim is durable. */
export async function claimKey(client: Queryable, claim: KeyClaim): Promise<boolean> {
  return (await insertClaim(client, claim)).length > 0;
}

/** The claim of a key; null: it has none. */
export async function findClaim(client: Queryable, digest: Buffer): Promise<FoundClaim | null> {
  return (await selectClaim(client, { digest }))[0] ?? null;
}

/** Ends the claim of a request whose instance was closed, as the log says. */
export async function resolveClaim(client: Queryable, request: string): Promise<void> {
  await rowOf(client, sql`select daybook.resolve_idempotency_key(${request})`);
}

/** Has the end of a running request announced. */
export async function awaitEnd(client: Queryable, request: string): Promise<void> {
  await countOf(
    client,
    db
      .updateTable('daybook.idempotency_key')
      .set({ is_awaited: true })
      .where('request', '=', request)
      .where('state', '=', KEY_STATES.running)
      .where('is_awaited', '=', false),
  );
}

/** Releases the key of a running request that no upstream has worked on. */
export async function releaseKey(client: Queryable, request: string): Promise<void> {
  const released = db
    .deleteFrom('daybook.idempotency_key')
    .where('request', '=', request)
    .where('state', '=', KEY_STATES.running)
    .returning(['request', 'is_awaited']);
  await rowsOf(
    client,
    db
      .with('ended', () => released)
      .selectFrom('ended')
      .select(announcement)
      .where('is_awaited', '=', true),
  );
}

/**
 * The request of a key has ended.
 * @param reply null: it is not kept. Neither is the reply to a request of an end user, a session or a tag
 * that was erased, or one that is sealed under a key that was destroyed.
 */
export async function endKey(client: Queryable, request: string, reply: ReplyRow | null): Promise<void> {
  const ended = db
    .updateTable('daybook.idempotency_key')
    .set({ state: KEY_STATES.ended })
    .where('request', '=', request)
    .where('state', '=', KEY_STATES.running)
    .returning(['request', 'account', 'is_awaited']);
  const withEnded = db.with('ended', () => ended);
  if (reply === null) {
    await rowsOf(client, withEnded.selectFrom('ended').select(announcement).where('is_awaited', '=', true));
    return;
  }
  const { generation, pseudonyms, sealed } = reply;
  await rowsOf(
    client,
    withEnded
      .with('kept', (qb) =>
        qb
          .insertInto('daybook.idempotent_reply')
          .columns(['request', 'account', 'generation', 'pseudonyms', 'sealed'])
          .expression((eb) =>
            eb
              .selectFrom('ended as e')
              .innerJoin('daybook.attribution_key as a', 'a.account', 'e.account')
              .select([
                'e.request',
                'e.account',
                'a.generation',
                sql<string[]>`${pseudonyms}::text[]`.as('pseudonyms'),
                sql<Buffer>`${sealed}::bytea`.as('sealed'),
              ])
              .where('a.generation', '=', generation)
              .where('a.sealed', 'is not', null)
              .where(({ not, exists, selectFrom }) =>
                not(
                  exists(
                    selectFrom('daybook.attribution_erased as x')
                      .select('x.pseudonym')
                      .whereRef('x.account', '=', 'e.account')
                      .where(sql<boolean>`x.pseudonym = any(${pseudonyms}::text[])`),
                  ),
                ),
              ),
          ),
      )
      .selectFrom('ended')
      .select(announcement)
      .where('is_awaited', '=', true),
  );
}

const announcement = sql`pg_notify(${sql.lit(IDEMPOTENCY_CHANNEL)}, request::text)`.as('announced');

/** The kept reply to a request; null: none is kept. */
export async function readReply(
  client: Queryable,
  request: string,
): Promise<Pick<ReplyRow, 'generation' | 'sealed'> | null> {
  const query = db
    .selectFrom('daybook.idempotent_reply')
    .select(['generation', 'sealed'])
    .where('request', '=', request);
  return (await rowOf(client, query)) ?? null;
}

/** The keys of an account, counted up to a bound, and the bytes of its kept replies. */
export async function countKept(
  client: Queryable,
  account: string,
  keysMax: number,
): Promise<{ keys: number; bytes: number }> {
  const keys = db
    .selectFrom('daybook.idempotency_key')
    .select('request')
    .where('account', '=', account)
    .limit(keysMax);
  const query = db.selectNoFrom([
    sql<string>`(select count(*) from (${keys}) as k)`.as('keys'),
    sql<string>`(select coalesce(sum(octet_length(sealed)), 0) from daybook.idempotent_reply
      where account = ${account})`.as('bytes'),
  ]);
  const row = await rowOf(client, query);
  return { keys: Number(row?.keys ?? 0), bytes: Number(row?.bytes ?? 0) };
}

/** Deletes the kept replies of an account, or only those of a pseudonym. @returns how many. */
export function deleteReplies(client: Queryable, account: string, pseudonym?: string): Promise<number> {
  let query = db.deleteFrom('daybook.idempotent_reply').where('account', '=', account);
  if (pseudonym !== undefined) query = query.where(sql<boolean>`${pseudonym} = any(pseudonyms)`);
  return countOf(client, query);
}

/** Deletes keys and replies that are older than they are kept, at most some thousand. @returns how many. */
export async function deleteOldKeys(client: Queryable): Promise<number> {
  const old = (table: 'daybook.idempotency_key' | 'daybook.idempotent_reply', hours: number) =>
    db
      .deleteFrom(table)
      .where(
        sql<boolean>`request = any(array(${db
          .selectFrom(table)
          .select('request')
          .where(isOlderThan('created_at', hours))
          .orderBy('created_at')
          .limit(DELETED_ROWS_MAX)}))`,
      );
  const replies = await countOf(client, old('daybook.idempotent_reply', REPLY_HOURS));
  return replies + (await countOf(client, old('daybook.idempotency_key', KEY_HOURS)));
}

import { type Selectable, sql } from 'kysely';
import type { ClientBase } from 'pg';
import { VALUES_DELETED_MAX } from '#db/attribution/bounds.ts';
import type { Named, SealedKey } from '#db/attribution/keys.ts';
import { ATTRIBUTION_KIND_NAMES, ATTRIBUTION_KINDS, type AttributionKind } from '#db/attribution/value.ts';
import { deleteReplies } from '#db/idempotency/keys.ts';
import { countOf, db, rowOf, rowsOf, type Queryable } from '#db/schema/query.ts';
import type { Tables } from '#db/schema/tables.ts';

/** All queries on the tables of attribution. Nothing here can open a value. */

export type SealedValue = Named & { sealed: Buffer };

/** The key of an account; `destroyed` is the number of its last key, which is gone. */
export type StoredKey = SealedKey | { account: string; destroyed: number };

/** The keys of these accounts; accounts without one are skipped. */
export async function readAccountKeys(client: Queryable, accounts: readonly string[]): Promise<StoredKey[]> {
  const rows = await rowsOf(
    client,
    db
      .selectFrom('daybook.attribution_key')
      .select(['account', 'generation', 'sealed', 'master_key'])
      .where((eb) => eb('account', '=', eb.fn.any(sql.val(accounts)))),
  );
  return rows.map(({ account, generation, sealed, master_key }) =>
    sealed === null || master_key === null
      ? { account, destroyed: generation }
      : { account, generation, sealed, master_key },
  );
}

/** All keys that were not destroyed. */
export async function readAllAccountKeys(client: Queryable): Promise<SealedKey[]> {
  const query = db.selectFrom('daybook.attribution_key').select('account').orderBy('account');
  const accounts = (await rowsOf(client, query)).map(({ account }) => account);
  return (await readAccountKeys(client, accounts)).filter((key): key is SealedKey => 'sealed' in key);
}

/** Inserts a key where the account has none, or its last one was destroyed. */
export async function insertAccountKey(client: ClientBase, key: SealedKey): Promise<void> {
  const { account, generation, sealed, master_key } = key;
  const query = db
    .insertInto('daybook.attribution_key')
    .values({ account, generation, sealed, master_key })
    .onConflict((conflict) =>
      conflict
        .column('account')
        .doUpdateSet({ generation, sealed, master_key, created_at: sql<Date>`statement_timestamp()` })
        .where('daybook.attribution_key.sealed', 'is', null),
    );
  await countOf(client, query);
}

/** Replaces the sealing of a key that was not destroyed meanwhile. */
export async function rewrapStoredKey(client: ClientBase, key: SealedKey): Promise<void> {
  const { account, generation, sealed, master_key } = key;
  const query = db
    .updateTable('daybook.attribution_key')
    .set({ sealed, master_key })
    .where('account', '=', account)
    .where('generation', '=', generation)
    .where('sealed', 'is not', null);
  await countOf(client, query);
}

/**
 * Locks an account's key until the transaction ends, against the storing of values.
 * @returns the key; undefined if the account never had one.
 */
export async function lockAccountKey(client: ClientBase, account: string): Promise<StoredKey | undefined> {
  const query = db
    .selectFrom('daybook.attribution_key')
    .select('account')
    .where('account', '=', account)
    .forUpdate();
  if (!(await rowOf(client, query))) return undefined;
  return (await readAccountKeys(client, [account]))[0];
}

/**
 * Stores values, in a transaction of its own. Those that were erased, and all where the key with which they
 * were sealed was destroyed, are skipped.
 */
export async function storeValues(
  client: ClientBase,
  { account, generation }: Pick<SealedKey, 'account' | 'generation'>,
  values: readonly SealedValue[],
): Promise<void> {
  await client.query('begin');
  try {
    // In a statement of its own: the next one sees the erasures that this one waited for.
    const key = db
      .selectFrom('daybook.attribution_key')
      .select('account')
      .where('account', '=', account)
      .where('generation', '=', generation)
      .where('sealed', 'is not', null)
      .forKeyShare();
    if (await rowOf(client, key))
      await client.query(
        `insert into daybook.attribution_value (account, kind, pseudonym, sealed)
          select $1, kind, pseudonym, sealed
            from unnest($2::smallint[], $3::text[], $4::bytea[]) as t (kind, pseudonym, sealed)
            where not exists (select from daybook.attribution_erased e
              where e.account = $1 and e.kind = t.kind and e.pseudonym = t.pseudonym)
            order by kind, pseudonym
          on conflict do nothing`,
        [
          account,
          values.map(({ kind }) => ATTRIBUTION_KINDS[kind]),
          values.map(({ pseudonym }) => pseudonym),
          values.map(({ sealed }) => sealed),
        ],
      );
    await client.query('commit');
  } catch (error) {
    // A lost connection has rolled back already.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

type Wanted = Pick<Selectable<Tables['daybook.attribution_value']>, 'kind' | 'pseudonym'>;

/** Pseudonyms as rows to join with. */
const wantedOf = (named: readonly Named[]) => {
  const kinds = named.map(({ kind }) => ATTRIBUTION_KINDS[kind]);
  const pseudonyms = named.map(({ pseudonym }) => pseudonym);
  return sql<Wanted>`unnest(${kinds}::smallint[], ${pseudonyms}::text[])`.as<'t'>(sql`t(kind, pseudonym)`);
};

/** The sealed values of these pseudonyms; unknown ones are skipped. */
export async function readSealedValues(
  client: Queryable,
  account: string,
  named: readonly Named[],
): Promise<SealedValue[]> {
  const query = db
    .selectFrom(wantedOf(named))
    .innerJoin('daybook.attribution_value as v', (join) =>
      join
        .onRef('v.kind', '=', 't.kind')
        .onRef('v.pseudonym', '=', 't.pseudonym')
        .on('v.account', '=', account),
    )
    .select(['v.kind', 'v.pseudonym', 'v.sealed']);
  return (await rowsOf(client, query)).map(({ kind, pseudonym, sealed }) => ({
    kind: kindOf(kind),
    pseudonym,
    sealed,
  }));
}

/** Those of these pseudonyms whose values were erased one by one. */
export async function readErased(
  client: Queryable,
  account: string,
  named: readonly Named[],
): Promise<Named[]> {
  const query = db
    .selectFrom(wantedOf(named))
    .innerJoin('daybook.attribution_erased as e', (join) =>
      join
        .onRef('e.kind', '=', 't.kind')
        .onRef('e.pseudonym', '=', 't.pseudonym')
        .on('e.account', '=', account),
    )
    .select(['e.kind', 'e.pseudonym']);
  return (await rowsOf(client, query)).map(({ kind, pseudonym }) => ({ kind: kindOf(kind), pseudonym }));
}

/** How many values of each kind an account has, counted up to a bound. */
export async function countValues(
  client: Queryable,
  account: string,
  max: number,
): Promise<Record<AttributionKind, number>> {
  const counts = { end_user: 0, session: 0, tag: 0 };
  for (const kind of ATTRIBUTION_KIND_NAMES) {
    const values = db
      .selectFrom('daybook.attribution_value')
      .select('pseudonym')
      .where('account', '=', account)
      .where('kind', '=', ATTRIBUTION_KINDS[kind])
      .limit(max);
    const query = db.selectFrom(values.as('v')).select((eb) => eb.fn.countAll<string>().as('count'));
    counts[kind] = Number((await rowOf(client, query))?.count ?? 0);
  }
  return counts;
}

/** The kind of a pseudonym of an account, by its stored value or its erasure; several in theory. */
export async function kindsOfPseudonym(
  client: Queryable,
  account: string,
  pseudonym: string,
): Promise<AttributionKind[]> {
  const query = db
    .selectFrom('daybook.attribution_value')
    .select('kind')
    .where('account', '=', account)
    .where('pseudonym', '=', pseudonym)
    .union(
      db
        .selectFrom('daybook.attribution_erased')
        .select('kind')
        .where('account', '=', account)
        .where('pseudonym', '=', pseudonym),
    );
  return (await rowsOf(client, query)).map(({ kind }) => kindOf(kind));
}

const kindOf = (code: number): AttributionKind => ATTRIBUTION_KIND_NAMES[code - 1] as AttributionKind;

/**
 * Deletes a value, with the kept replies to its requests, and keeps it from being stored again. The caller
 * has locked the account's key.
 * @returns false where it was erased before.
 */
export async function eraseValue(
  client: ClientBase,
  account: string,
  { kind, pseudonym }: Named,
): Promise<boolean> {
  const row = { account, kind: ATTRIBUTION_KINDS[kind], pseudonym };
  const isNew = await countOf(
    client,
    db
      .insertInto('daybook.attribution_erased')
      .values(row)
      .onConflict((conflict) => conflict.doNothing()),
  );
  await countOf(
    client,
    db
      .deleteFrom('daybook.attribution_value')
      .where('account', '=', account)
      .where('kind', '=', row.kind)
      .where('pseudonym', '=', pseudonym),
  );
  await deleteReplies(client, account, pseudonym);
  return isNew === 1;
}

/**
 * Destroys an account's key, all its values and the replies that are sealed under it. The caller has locked
 * the key.
 * @returns how many values there were.
 */
export async function destroyAccountKey(client: ClientBase, account: string): Promise<number> {
  await countOf(
    client,
    db
      .updateTable('daybook.attribution_key')
      .set({ sealed: null, master_key: null, destroyed_at: sql<Date>`statement_timestamp()` })
      .where('account', '=', account),
  );
  await deleteReplies(client, account);
  return countOf(client, db.deleteFrom('daybook.attribution_value').where('account', '=', account));
}

/** Values that were stored longer ago are deleted; a call with one of them stores it again. */
const RETENTION = '400 days';

/**
 * Deletes values past their retention, the oldest first, a part of them at a time. Rows are locked only by
 * their deletion: the relay may not update them.
 * @returns how many.
 */
export function deleteExpiredValues(client: ClientBase): Promise<number> {
  const expired = db
    .selectFrom('daybook.attribution_value')
    .select(sql`ctid`.as('ctid'))
    .where('first_seen_at', '<', sql<Date>`statement_timestamp() - ${sql.lit(RETENTION)}::interval`)
    .orderBy('first_seen_at')
    .limit(VALUES_DELETED_MAX);
  return countOf(
    client,
    db.deleteFrom('daybook.attribution_value').where(sql<boolean>`ctid = any(array(${expired}))`),
  );
}

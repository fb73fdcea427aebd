import { sql } from 'kysely';
import { namesByCode } from '#db/events/codes.ts';
import { DELETED_ROWS_MAX, STORED_DAYS } from '#db/stored/bounds.ts';
import { countOf, db, prepare, type Queryable, rowsOf } from '#db/schema/query.ts';

/** All queries on the places of stored objects. */

/** What providers store. The numbers are stored and never change meaning. */
export const STORED_KINDS = { response: 1, file: 2, batch: 3, message_batch: 4 } as const;
export type StoredKind = keyof typeof STORED_KINDS;
const KIND_OF = namesByCode(STORED_KINDS);

/** A stored object, as its account names it. */
export type StoredName = { account: string; id: string };

/** Where an object is stored. `credential` is null for that of the environment. */
export type StoredPlace = { kind: StoredKind; upstream: string; credential: string | null };

/** `content` is the provider's description for lists; absent: the object is in no list. */
export type StoredRow = StoredName & StoredPlace & { content?: string };

/** Writes places. Of the same name the newest counts. @param rows have different names. */
export async function insertPlaces(client: Queryable, rows: readonly StoredRow[]): Promise<void> {
  if (rows.length === 0) return;
  const query = db
    .insertInto('daybook.stored_object')
    .values(
      rows.map(({ account, id, kind, upstream, credential, content = null }) => ({
        ...{ account, id, kind: STORED_KINDS[kind], upstream, credential, content },
      })),
    )
    .onConflict((conflict) =>
      conflict.columns(['account', 'id']).doUpdateSet((eb) => ({
        kind: eb.ref('excluded.kind'),
        upstream: eb.ref('excluded.upstream'),
        credential: eb.ref('excluded.credential'),
        created_at: eb.ref('excluded.created_at'),
        content: eb.ref('excluded.content'),
      })),
    );
  await countOf(client, query);
}

/** Writes places that are not known yet; those that are keep their age and what lists show of them. */
export async function addPlaces(client: Queryable, rows: readonly StoredRow[]): Promise<void> {
  if (rows.length === 0) return;
  const values = rows.map(({ account, id, kind, upstream, credential, content = null }) => ({
    ...{ account, id, kind: STORED_KINDS[kind], upstream, credential, content },
  }));
  const query = db
    .insertInto('daybook.stored_object')
    .values(values)
    .onConflict((conflict) => conflict.columns(['account', 'id']).doNothing());
  await countOf(client, query);
}

type PlaceRow = { kind: number; upstream: string; credential: string | null };

const selectPlace = prepare<StoredName, PlaceRow>('stored_place', ({ account, id }) =>
  db
    .selectFrom('daybook.stored_object')
    .select(['kind', 'upstream', 'credential'])
    .where('account', '=', account)
    .where('id', '=', id),
);

/** @returns null: no object of this name is known. */
export async function readPlace(client: Queryable, name: StoredName): Promise<StoredPlace | null> {
  const [row] = await selectPlace(client, name);
  const kind = row && KIND_OF.get(row.kind);
  return kind === undefined ? null : { ...(row as PlaceRow), kind };
}

/** Replaces what lists show of an object. */
export async function describePlace(
  client: Queryable,
  { account, id }: StoredName,
  content: string,
): Promise<void> {
  const query = db
    .updateTable('daybook.stored_object')
    .set({ content })
    .where('account', '=', account)
    .where('id', '=', id);
  await countOf(client, query);
}

export type PlaceList = {
  account: string;
  kind: StoredKind;
  /** The id of the object that the page follows; null: the page is the first. */
  after: string | null;
  isAscending: boolean;
  limit: number;
};

/** A page of an account's objects, by their age. @returns what their providers say of them. */
export async function listPlaces(
  client: Queryable,
  { account, kind, after, isAscending, limit }: PlaceList,
): Promise<string[]> {
  const direction = isAscending ? 'asc' : 'desc';
  let query = db
    .selectFrom('daybook.stored_object as o')
    .select('o.content')
    .where('o.account', '=', account)
    .where('o.kind', '=', STORED_KINDS[kind])
    .where('o.content', 'is not', null)
    .orderBy('o.created_at', direction)
    .orderBy('o.id', direction)
    .limit(limit);
  if (after !== null) {
    const at = db
      .selectFrom('daybook.stored_object as a')
      .select('a.created_at')
      .where('a.account', '=', account)
      .where('a.id', '=', after);
    query = query.where(
      isAscending
        ? sql<boolean>`(o.created_at, o.id) > ((${at}), ${after})`
        : sql<boolean>`(o.created_at, o.id) < ((${at}), ${after})`,
    );
  }
  return (await rowsOf(client, query)).map(({ content }) => content as string);
}

export async function deletePlace(client: Queryable, { account, id }: StoredName): Promise<void> {
  const query = db.deleteFrom('daybook.stored_object').where('account', '=', account).where('id', '=', id);
  await countOf(client, query);
}

/** Deletes places that are older than they are kept, at most some thousand. @returns how many. */
export function deleteOldPlaces(client: Queryable): Promise<number> {
  const old = db
    .selectFrom('daybook.stored_object')
    .select(sql`ctid`.as('ctid'))
    .where('created_at', '<', sql<Date>`statement_timestamp() - ${sql.lit(STORED_DAYS)} * interval '1 day'`)
    .orderBy('created_at')
    .limit(DELETED_ROWS_MAX);
  return countOf(
    client,
    db.deleteFrom('daybook.stored_object').where(sql<boolean>`ctid = any(array(${old}))`),
  );
}

import { sql } from 'kysely';
import { DELETED_ROWS_MAX, STORED_RESPONSE_DAYS } from '#db/stored/bounds.ts';
import { countOf, db, prepare, type Queryable } from '#db/schema/query.ts';

/** All queries on the places of stored responses. */

/** A stored response, as its account names it. */
export type StoredName = { account: string; id: string };

/** Where a response is stored. `credential` is null for that of the environment. */
export type StoredPlace = { upstream: string; credential: string | null };

export type StoredRow = StoredName & StoredPlace;

/** Writes places. Of the same name the newest counts. @param rows have different names. */
export async function insertPlaces(client: Queryable, rows: readonly StoredRow[]): Promise<void> {
  if (rows.length === 0) return;
  const query = db
    .insertInto('daybook.stored_response')
    .values(rows.map(({ account, id, upstream, credential }) => ({ account, id, upstream, credential })))
    .onConflict((conflict) =>
      conflict.columns(['account', 'id']).doUpdateSet((eb) => ({
        upstream: eb.ref('excluded.upstream'),
        credential: eb.ref('excluded.credential'),
        created_at: eb.ref('excluded.created_at'),
      })),
    );
  await countOf(client, query);
}

const selectPlace = prepare<StoredName, StoredPlace>('stored_place', ({ account, id }) =>
  db
    .selectFrom('daybook.stored_response')
    .select(['upstream', 'credential'])
    .where('account', '=', account)
    .where('id', '=', id),
);

/** @returns null: no response of this name is known. */
export async function readPlace(client: Queryable, name: StoredName): Promise<StoredPlace | null> {
  return (await selectPlace(client, name))[0] ?? null;
}

export async function deletePlace(client: Queryable, { account, id }: StoredName): Promise<void> {
  const query = db.deleteFrom('daybook.stored_response').where('account', '=', account).where('id', '=', id);
  await countOf(client, query);
}

/** Deletes places that are older than they are kept, at most some thousand. @returns how many. */
export function deleteOldPlaces(client: Queryable): Promise<number> {
  const old = db
    .selectFrom('daybook.stored_response')
    .select(sql`ctid`.as('ctid'))
    .where(
      'created_at',
      '<',
      sql<Date>`statement_timestamp() - ${sql.lit(STORED_RESPONSE_DAYS)} * interval '1 day'`,
    )
    .orderBy('created_at')
    .limit(DELETED_ROWS_MAX);
  return countOf(
    client,
    db.deleteFrom('daybook.stored_response').where(sql<boolean>`ctid = any(array(${old}))`),
  );
}

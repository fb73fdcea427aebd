import { sql } from 'kysely';
import type { ClientBase } from 'pg';
import { takeLock, withLock } from '#db/postgres/locks.ts';
import { countOf, db, rowsOf } from '#db/schema/query.ts';
import type { Envelope, Owner, Wrapped } from '#db/secrets/envelope.ts';

/**
 * The sealed credentials of upstreams: all queries on `daybook.credential`. Nothing here can open a secret.
 */

export type SealedCredential = Owner & Envelope;

/** Inserts a credential, in the transaction of its event. */
export async function insertCredential(
  client: ClientBase,
  { id, upstream, sealed_secret, wrapped_key, master_key, fingerprint }: SealedCredential,
): Promise<void> {
  const row = { id, upstream, sealed_secret, wrapped_key, master_key, fingerprint };
  await countOf(client, db.insertInto('daybook.credential').values(row));
}

/** Deletes credentials permanently, in the transaction of their events. */
export async function deleteCredentials(client: ClientBase, ids: readonly string[]): Promise<void> {
  await countOf(
    client,
    db.deleteFrom('daybook.credential').where((eb) => eb('id', '=', eb.fn.any(sql.val(ids)))),
  );
}

/** @param ids unknown ones are skipped; absent: all credentials. */
export async function readCredentials(
  client: ClientBase,
  ids?: readonly string[],
): Promise<SealedCredential[]> {
  let query = db
    .selectFrom('daybook.credential')
    .select(['id', 'upstream', 'sealed_secret', 'wrapped_key', 'master_key', 'fingerprint'])
    .orderBy('id');
  if (ids !== undefined) query = query.where((eb) => eb('id', '=', eb.fn.any(sql.val(ids))));
  return rowsOf(client, query);
}

/** The ids of the master keys that credentials and keys of attribution are sealed under. */
export async function masterKeysInUse(client: ClientBase): Promise<Set<string>> {
  const query = db
    .selectFrom('daybook.credential')
    .select('master_key')
    .union(
      db
        .selectFrom('daybook.attribution_key')
        .select((eb) => eb.ref('master_key').$notNull().as('master_key'))
        .where('master_key', 'is not', null),
    );
  return new Set((await rowsOf(client, query)).map(({ master_key }) => master_key));
}

/** Replaces the wrapped data key of a credential. */
export async function rewrapCredential(
  client: ClientBase,
  id: string,
  { wrapped_key, master_key }: Wrapped,
): Promise<void> {
  await countOf(
    client,
    db.updateTable('daybook.credential').set({ wrapped_key, master_key }).where('id', '=', id),
  );
}

/**
 * Locks the master key until the transaction ends: secrets are sealed under the current key, and the first
 * key is created once.
 */
export async function lockMasterKey(client: ClientBase): Promise<void> {
  await client.query(takeLock('master_key'));
}

/** The same while `work` runs, across its transactions. */
export function withMasterKeyLock<T>(client: ClientBase, work: () => Promise<T>): Promise<T> {
  return withLock(client, 'master_key', work);
}

import type { ClientBase } from 'pg';
import type { Envelope, Owner, Wrapped } from '#db/secrets/envelope.ts';
import { LOCKS } from '#db/postgres/locks.ts';

/** The table of what upstreams ask for: all SQL on it. Nothing here can open a secret. */

export type SealedCredential = Owner & Envelope;

/** Adds one. It belongs into the transaction of its event. */
export async function insertCredential(client: ClientBase, { id, upstream, sealed_secret, wrapped_key, master_key, fingerprint }: SealedCredential): Promise<void> {
  await client.query('insert into daybook.credential (id, upstream, sealed_secret, wrapped_key, master_key, fingerprint) values ($1, $2, $3, $4, $5, $6)', [
    id, upstream, sealed_secret, wrapped_key, master_key, fingerprint,
  ]);
}

/** Takes these away for good, in the transaction of the events that say so. */
export async function deleteCredentials(client: ClientBase, ids: readonly string[]): Promise<void> {
  await client.query('delete from daybook.credential where id = any($1)', [ids]);
}

/** @param ids those of them that are there; absent: all. */
export async function readCredentials(client: ClientBase, ids?: readonly string[]): Promise<SealedCredential[]> {
  const { rows } = await client.query<SealedCredential>(
    'select id, upstream, sealed_secret, wrapped_key, master_key, fingerprint from daybook.credential where $1::text[] is null or id = any($1) order by id',
    [ids ?? null],
  );
  return rows;
}

/** The ids of the master keys that something is sealed under. */
export async function masterKeysInUse(client: ClientBase): Promise<Set<string>> {
  const { rows } = await client.query<{ master_key: string }>('select distinct master_key from daybook.credential');
  return new Set(rows.map(({ master_key }) => master_key));
}

/** Puts a data key that was wrapped anew in its place. */
export async function rewrapCredential(client: ClientBase, id: string, { wrapped_key, master_key }: Wrapped): Promise<void> {
  await client.query('update daybook.credential set wrapped_key = $2, master_key = $3 where id = $1', [id, wrapped_key, master_key]);
}

/**
 * Keeps the master key to oneself until the transaction ends: what is sealed in it is sealed under the
 * current one, and the first one is made once.
 */
export async function lockMasterKey(client: ClientBase): Promise<void> {
  await client.query(`select pg_advisory_xact_lock(${LOCKS.masterKey})`);
}

/** The same while `work` runs, over its transactions. */
export async function withMasterKeyLock<T>(client: ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query(`select pg_advisory_lock(${LOCKS.masterKey})`);
  try {
    return await work();
  } finally {
    // A connection that is gone has let go of it.
    await client.query(`select pg_advisory_unlock(${LOCKS.masterKey})`).catch(() => {});
  }
}

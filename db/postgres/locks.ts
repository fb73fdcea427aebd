import { type Client, type ClientBase, DatabaseError } from 'pg';
import { closeClient, connectLike } from '#db/postgres/connect.ts';

/**
 * The locks that processes of Daybook take on one another: the tables of db/schema/tables/locks.sql.
 *
 * Tables and not advisory locks, because every login of a database can take any advisory lock and keep it.
 * The mode is SHARE UPDATE EXCLUSIVE: it conflicts with itself, and with nothing that a login without
 * privileges on the tables and their schema can take. (Such a login can take ROW EXCLUSIVE on every table of
 * a database: `nextval` locks whatever its argument numbers before it checks it.)
 *
 * The lock order everywhere: an instance's row, allowances by their identity, the log.
 */
export type Lock =
  | 'archive'
  | 'backtest'
  | 'checkpoint'
  | 'identity'
  | 'log'
  | 'logins'
  | 'master_key'
  | 'migration'
  | 'partitions'
  | 'projecting'
  | 'rebuild'
  | 'setup';

export const LOCK_SCHEMA = 'daybook_lock';

/** SQLSTATE lock_not_available. */
const LOCK_NOT_AVAILABLE = '55P03';

/** The statement that takes a lock until the end of the transaction. */
export const takeLock = (lock: Lock): string =>
  `lock table ${LOCK_SCHEMA}.${lock} in share update exclusive mode`;

/** The same without waiting. It fails with {@link isLockTaken} where another transaction has the lock. */
export const takeLockNow = (lock: Lock): string => `${takeLock(lock)} nowait`;

export const isLockTaken = (error: unknown): boolean =>
  error instanceof DatabaseError && error.code === LOCK_NOT_AVAILABLE;

/** The condition under which a row of pg_locks is the given lock, held. */
export const isHeld = (lock: Lock): string =>
  `locktype = 'relation' and granted and mode = 'ShareUpdateExclusiveLock'
    and relation = '${LOCK_SCHEMA}.${lock}'::regclass
    and database = (select oid from pg_database where datname = current_database())`;

/** A lock that outlasts transactions: it is held by a connection of its own, idle in a transaction. */
export type HeldLock = { release(): Promise<void> };

/**
 * Waits for a lock and holds it across the transactions of a client, until it is released or the client's
 * connection ends. If the lock is lost with its own connection, the client's connection is destroyed: nothing
 * goes on without the lock.
 * @param timeoutMs how long to wait; absent: the client's own `lock_timeout`.
 */
export function holdLock(client: ClientBase, lock: Lock, timeoutMs?: number): Promise<HeldLock> {
  const timeout = timeoutMs === undefined ? '' : `set local lock_timeout = ${timeoutMs};`;
  return hold(client, `${timeout} ${takeLock(lock)}`);
}

/** The same without waiting. @returns null if another process has the lock. */
export async function tryHoldLock(client: ClientBase, lock: Lock): Promise<HeldLock | null> {
  try {
    return await hold(client, takeLockNow(lock));
  } catch (error) {
    if (isLockTaken(error)) return null;
    throw error;
  }
}

/** Runs `work` while the lock is held, across its transactions. */
export async function withLock<T>(client: ClientBase, lock: Lock, work: () => Promise<T>): Promise<T> {
  const held = await holdLock(client, lock);
  try {
    return await work();
  } finally {
    await held.release();
  }
}

async function hold(client: ClientBase, take: string): Promise<HeldLock> {
  const own = await connectLike(client);
  try {
    // Without a snapshot and a transaction id, so it delays no vacuum however long it lasts.
    await own.query(`begin; set local idle_in_transaction_session_timeout = 0; ${take}`);
  } catch (error) {
    await closeClient(own);
    throw error;
  }
  let isReleased = false;
  const release = async (): Promise<void> => {
    if (isReleased) return;
    isReleased = true;
    client.removeListener('end', onEnd);
    await closeClient(own);
  };
  const onEnd = (): void => void release();
  client.once('end', onEnd);
  own.once('end', () => {
    if (!isReleased) (client as Client).connection.stream.destroy();
    isReleased = true;
  });
  return { release };
}

import type { Client } from 'pg';
import { DatabaseError } from 'pg';
import { LOCKS } from '#db/postgres/locks.ts';

/**
 * A detach that meets a lock, or a transaction that has begun before it, is given up and finished by a later
 * run.
 */
const DETACH_TIMEOUT_MS = 10_000;
/** What it waits for holds locks for moments; longer, and others would queue behind it. */
const LOCK_TIMEOUT_MS = 500;

/** How a partition stands by Postgres' own account: `leaving` is a detach that was interrupted. */
export type Standing = 'attached' | 'leaving' | 'detached' | 'dropped';

export async function standingOf(client: Client, name: string): Promise<Standing> {
  const { rows } = await client.query<{ is_there: boolean; is_leaving: boolean | null }>(
    `select to_regclass('daybook.' || quote_ident($1)) is not null as is_there,
      (select inhdetachpending from pg_inherits
        where inhparent = 'daybook.log'::regclass and inhrelid = to_regclass('daybook.' || quote_ident($1))) as is_leaving`,
    [name],
  );
  const { is_there, is_leaving } = rows[0] as (typeof rows)[number];
  if (!is_there) return 'dropped';
  if (is_leaving === null) return 'detached';
  return is_leaving ? 'leaving' : 'attached';
}

/**
 * Takes a partition out of the log while others append and read: what they have begun to read stays
 * whole, and whoever begins later finds it gone. Goes on with what an earlier call has begun.
 * @returns false when readers of long standing were in the way; a later call is to try again.
 */
export async function detachPartition(client: Client, name: string): Promise<boolean> {
  // Not while partitions are made: each would wait for the other's lock on the log.
  await client.query(`select pg_advisory_lock(${LOCKS.partitions})`);
  try {
    const standing = await standingOf(client, name);
    if (standing === 'detached' || standing === 'dropped') return true;
    await client.query(`set lock_timeout = ${LOCK_TIMEOUT_MS}; set statement_timeout = ${DETACH_TIMEOUT_MS}`);
    try {
      // No parameters, and no transaction around it: Postgres wants it so.
      await client.query(
        `alter table daybook.log detach partition daybook.${client.escapeIdentifier(name)} ${standing === 'leaving' ? 'finalize' : 'concurrently'}`,
      );
      return true;
    } catch (error) {
      if (error instanceof DatabaseError && WAITED.has(error.code ?? '')) return false;
      throw error;
    } finally {
      // Where the connection is lost these are lost with it, and the lock, too.
      await client.query('reset lock_timeout; reset statement_timeout').catch(() => undefined);
    }
  } finally {
    await client.query(`select pg_advisory_unlock(${LOCKS.partitions})`).catch(() => undefined);
  }
}

/** lock_not_available, query_canceled, deadlock_detected, object_in_use. */
const WAITED = new Set(['55P03', '57014', '40P01', '55006']);

/** Drops a table that is not part of the log any more. */
export async function dropPartition(client: Client, name: string): Promise<void> {
  await client.query(`drop table if exists daybook.${client.escapeIdentifier(name)}`);
}

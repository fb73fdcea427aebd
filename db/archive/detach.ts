import { sql } from 'kysely';
import type { Client } from 'pg';
import { DatabaseError } from 'pg';
import { db, onlyRowOf } from '#db/schema/query.ts';
import { withLock } from '#db/postgres/locks.ts';
import { DETACH_TIMEOUT_MS, LOCK_TIMEOUT_MS } from '#db/archive/bounds.ts';

/** The state of a partition in PostgreSQL's catalog: `detaching` is an interrupted detach. */
export type Attachment = 'attached' | 'detaching' | 'detached' | 'dropped';

export async function readAttachment(client: Client, name: string): Promise<Attachment> {
  const table = sql<number | null>`to_regclass('daybook.' || quote_ident(${name}))`;
  const detaching = db
    .selectFrom('pg_catalog.pg_inherits')
    .select('inhdetachpending')
    .where('inhparent', '=', sql<number>`'daybook.log'::regclass`)
    .where('inhrelid', '=', table);
  const { exists, is_detaching } = await onlyRowOf(
    client,
    db.selectNoFrom(({ eb }) => [eb(table, 'is not', null).as('exists'), detaching.as('is_detaching')]),
  );
  if (!exists) return 'dropped';
  if (is_detaching === null) return 'detached';
  return is_detaching ? 'detaching' : 'attached';
}

/**
 * Detaches a partition concurrently with appends and reads: open snapshots still see it, later ones don't.
 * Finalizes a detach that an earlier call started.
 * @returns false when long-running readers blocked the detach; retry later.
 */
export function detachPartition(client: Client, name: string): Promise<boolean> {
  // Excludes the creation of partitions, which would deadlock on the lock of the log table.
  return withLock(client, 'partitions', async () => {
    const attachment = await readAttachment(client, name);
    if (attachment === 'detached' || attachment === 'dropped') return true;
    await client.query(`set lock_timeout = ${LOCK_TIMEOUT_MS}; set statement_timeout = ${DETACH_TIMEOUT_MS}`);
    try {
      // PostgreSQL allows no parameters and no transaction here.
      await client.query(
        `alter table daybook.log detach partition daybook.${client.escapeIdentifier(name)}
          ${attachment === 'detaching' ? 'finalize' : 'concurrently'}`,
      );
      return true;
    } catch (error) {
      if (error instanceof DatabaseError && BLOCKED_BY_READERS.has(error.code ?? '')) return false;
      throw error;
    } finally {
      // A lost connection has lost these settings.
      await client.query('reset lock_timeout; reset statement_timeout').catch(() => undefined);
    }
  });
}

/** lock_not_available, query_canceled, deadlock_detected, object_in_use. */
const BLOCKED_BY_READERS = new Set(['55P03', '57014', '40P01', '55006']);

/** Drops a detached table. */
export async function dropPartition(client: Client, name: string): Promise<void> {
  await client.query(`drop table if exists daybook.${client.escapeIdentifier(name)}`);
}

import type { ClientBase } from 'pg';
import { MIGRATION_TIMEOUT_MS } from '#db/bounds.ts';
import { LOCKS } from '#db/postgres/locks.ts';

/** Others may be at it for as long as a migration may take, whatever patience with locks the session has. */
const TURN = `set lock_timeout = ${MIGRATION_TIMEOUT_MS}; select pg_advisory_lock(${LOCKS.migration}); reset lock_timeout`;

/**
 * Waits until nobody else migrates, be it our tables or the job queue's: reading the catalogue fails
 * while somebody renames what it lists. The turn ends with the connection.
 */
export async function awaitMigrationTurn(client: Pick<ClientBase, 'query'>): Promise<void> {
  await client.query(TURN);
}

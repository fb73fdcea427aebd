import type { Client } from 'pg';
import { connectAs, patient, type Role, type Store } from '#db/postgres/connect.ts';

/** The log is loaded by one statement. A day is more than any usable disk needs. */
const STATEMENT_TIMEOUT_MS = 24 * 60 * 60 * 1_000;

/**
 * Connects with the patience of a batch job, whatever the timeouts of the store are: no request waits for a
 * backup or a restore, and a busy machine must not make one fail after hours.
 */
export function connectBatch(store: Store, role: Role): Promise<Client> {
  return connectAs(patient(store), role, STATEMENT_TIMEOUT_MS);
}

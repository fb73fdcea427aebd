import type { ClientBase } from 'pg';
import { explainAppendError } from '#db/log/occupied-position.ts';

/**
 * Appends the readings of outside logins to the log.
 * @throws {OccupiedPositionError} when a row that no append wrote is in the way.
 */
export async function appendReadings(client: Pick<ClientBase, 'query'>): Promise<void> {
  try {
    await client.query('select daybook.append_readings()');
  } catch (error) {
    throw explainAppendError(error);
  }
}

import { setTimeout as wait } from 'node:timers/promises';
import { DatabaseError } from 'pg';
import { TRANSACTION_ATTEMPTS_MAX, TRANSACTION_RETRY_MS } from '#db/bounds.ts';

/** SQLSTATE serialization_failure and deadlock_detected: the transaction was rolled back, as a whole. */
const ROLLED_BACK = ['40001', '40P01'];

/** Whether PostgreSQL rolled a transaction back because of a concurrent one, so that it may be repeated. */
export const isRolledBack = (error: unknown): boolean =>
  error instanceof DatabaseError && ROLLED_BACK.includes(error.code ?? '');

/**
 * Repeats a transaction that was rolled back because of a concurrent one, after a short random pause.
 * @param transaction a whole transaction, such as one statement outside of a transaction block. It must read
 *   everything again that it decides on.
 * @throws the error of the last attempt, and any other error at once.
 */
export async function retryTransaction<T>(transaction: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await transaction();
    } catch (error) {
      if (attempt === TRANSACTION_ATTEMPTS_MAX || !isRolledBack(error)) throw error;
      await wait(Math.random() * TRANSACTION_RETRY_MS * attempt);
    }
  }
}

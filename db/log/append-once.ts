import type { ClientBase } from 'pg';
import { StoreError } from '#db/postgres/connect.ts';
import { withInstance } from '#db/instances/instance-session.ts';
import { appendControl, ConflictError, type ControlAppend } from '#db/log/append.ts';

/**
 * Appends one control event for who appends nothing else, under an instance of its own.
 * @param name the instance's.
 * @returns the event's position.
 * @throws {StoreError} when its stream has moved on since it was read.
 */
export async function appendOnce(client: ClientBase, name: string, append: ControlAppend): Promise<number> {
  try {
    return await withInstance(client, name, (session) =>
      appendControl(client, session.instance, session.nextBatchNo(), [append]),
    );
  } catch (error) {
    if (!(error instanceof ConflictError)) throw error;
    throw new StoreError('the object was changed concurrently; check its current state and try again', {
      cause: error,
    });
  }
}

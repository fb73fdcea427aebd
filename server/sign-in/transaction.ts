import type { Client } from 'pg';
import { TRANSACTION_IDLE_MAX_MS } from '#server/sign-in/bounds.ts';
import type { Control } from '#server/control/control.ts';
import type { ControlWriter } from '#server/control/control-writer.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/**
 * Changes rows and appends their events in one transaction. `work` must append once and last: appending locks
 * the log until the commit. A process that stalls in between is disconnected, which rolls back.
 */
export async function inTransaction<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query(`begin; set local idle_in_transaction_session_timeout = ${TRANSACTION_IDLE_MAX_MS}`);
  try {
    const done = await work();
    await client.query(done instanceof ApiError ? 'rollback' : 'commit');
    return done;
  } catch (error) {
    // A lost connection has rolled back already.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/**
 * Changes rows and appends events, then waits until this process has read them. An error returned by `work`
 * rolls back.
 */
export async function change<T>(
  { control, readModel }: { control: ControlWriter; readModel: ReadModel },
  actor: string,
  work: (control: Control, client: Client) => Promise<{ position: number | null; done: T } | ApiError>,
): Promise<T | ApiError> {
  const changed = await changeWithoutWait(control, actor, work);
  if (changed instanceof ApiError) return changed;
  const { position, done } = changed;
  if (position !== null) await readModel.untilPosition(position);
  return done;
}

/** The same without the wait, so that the reply's time doesn't reveal whether anything changed. */
export function changeWithoutWait<T>(
  control: ControlWriter,
  actor: string,
  work: (control: Control, client: Client) => Promise<{ position: number | null; done: T } | ApiError>,
): Promise<{ position: number | null; done: T } | ApiError> {
  return control.change(actor, (writer, client) => inTransaction(client, () => work(writer, client)));
}

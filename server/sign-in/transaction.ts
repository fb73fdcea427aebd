import type { Client } from 'pg';
import { TRANSACTION_IDLE_MAX_MS } from '#server/sign-in/bounds.ts';
import type { Control } from '#server/control/control.ts';
import type { ControlWriter } from '#server/control/control-writer.ts';
import { ApiError } from '#server/errors/api-error.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';

/**
 * Rows and the events that tell of them change together, or not at all. What `work` appends it appends
 * at once and as the last thing that it does: from there on, until the commit, nobody else can append.
 * A process that freezes in between is cut off, and nothing was changed.
 */
export async function inTransaction<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query(`begin; set local idle_in_transaction_session_timeout = ${TRANSACTION_IDLE_MAX_MS}`);
  try {
    const done = await work();
    await client.query(done instanceof ApiError ? 'rollback' : 'commit');
    return done;
  } catch (error) {
    // A connection that is gone has rolled back by itself.
    await client.query('rollback').catch(() => {});
    throw error;
  }
}

/**
 * Changes rows and appends events for somebody, and waits until this process has heard of it.
 * Whatever `work` refuses is not done.
 */
export async function change<T>(
  { control, readModel }: { control: ControlWriter; readModel: ReadModel },
  actor: string,
  work: (control: Control, client: Client) => Promise<{ position: number | null; done: T } | ApiError>,
): Promise<T | ApiError> {
  const changed = await changeWithoutWait(control, actor, work);
  if (changed instanceof ApiError) return changed;
  const { position, done } = changed;
  if (position !== null) await readModel.heard(position);
  return done;
}

/** The same, without the wait: whoever is answered must not learn by it whether anything was changed. */
export function changeWithoutWait<T>(
  control: ControlWriter,
  actor: string,
  work: (control: Control, client: Client) => Promise<{ position: number | null; done: T } | ApiError>,
): Promise<{ position: number | null; done: T } | ApiError> {
  return control.change(actor, (seat, client) => inTransaction(client, () => work(seat, client)));
}

import { setTimeout as wait } from 'node:timers/promises';
import type { Client } from 'pg';
import { HEARD_POLL_MS, HEARD_WAIT_MS } from '#server/sign-in/bounds.ts';
import type { Control } from '#server/control.ts';
import type { ControlSeat } from '#server/control-seat.ts';
import { Refusal } from '#server/errors.ts';
import type { ReadModel } from '#server/read-model.ts';

/** Rows and the events that tell of them change together, or not at all. */
export async function inTransaction<T>(client: Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin');
  try {
    const done = await work();
    await client.query(done instanceof Refusal ? 'rollback' : 'commit');
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
  { control, readModel }: { control: ControlSeat; readModel: ReadModel },
  actor: string,
  work: (control: Control, client: Client) => Promise<{ position: number | null; done: T } | Refusal>,
): Promise<T | Refusal> {
  const changed = await control.change(actor, (seat, client) => inTransaction(client, () => work(seat, client)));
  if (changed instanceof Refusal) return changed;
  if (changed.position !== null) await heard(readModel, changed.position);
  return changed.done;
}

/** Resolves when the read model has come to a position, or after a while: what follows asks again. */
async function heard(readModel: ReadModel, position: number): Promise<void> {
  await until(() => readModel.position >= position);
}

/** Looks until it is so, for a while. @returns whether it is. */
export async function until(isSo: () => boolean): Promise<boolean> {
  const deadline = performance.now() + HEARD_WAIT_MS;
  while (!isSo() && performance.now() < deadline) await wait(HEARD_POLL_MS);
  return isSo();
}

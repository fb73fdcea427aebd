import type { Client } from 'pg';
import { z } from 'zod';
import { closeClient } from '#db/postgres/connect.ts';
import { recoverInstance } from '#db/instances/instance.ts';

export const RecoverInstance = z.object({ instance: z.int().positive() });

export type RecoverOptions = {
  /** Opens a connection that may wait long: the log is searched. */
  connect: () => Promise<Client>;
  /** The worker's own number, under which the endings are written. */
  instance: () => number;
  onRecovered: (dead: number, abandoned: number) => void;
};

/** Ends what a dead instance left open, and returns its leases. Again and again changes nothing. */
export async function recoverInstanceTask(payload: unknown, options: RecoverOptions): Promise<void> {
  const { instance: dead } = RecoverInstance.parse(payload);
  const client = await options.connect();
  try {
    options.onRecovered(dead, await recoverInstance(client, dead, options.instance()));
  } finally {
    await closeClient(client);
  }
}

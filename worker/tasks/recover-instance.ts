import type { Client } from 'pg';
import { z } from 'zod';
import { closeClient } from '#db/postgres/connect.ts';
import { recoverInstance } from '#db/instances/instance.ts';

export const RecoverInstance = z.object({ instance: z.int().positive() });

export type RecoverOptions = {
  /** Opens a connection with a long timeout: the log is searched. */
  connect: () => Promise<Client>;
  /** The worker's instance, which appends the ends of the requests. */
  instance: () => number;
  onRecovered: (dead: number, abandoned: number) => void;
};

/** Ends the open requests of a dead instance, and returns its leases. Idempotent. */
export async function recoverInstanceTask(payload: unknown, options: RecoverOptions): Promise<void> {
  const { instance: dead } = RecoverInstance.parse(payload);
  const client = await options.connect();
  try {
    options.onRecovered(dead, await recoverInstance(client, dead, options.instance()));
  } finally {
    await closeClient(client);
  }
}

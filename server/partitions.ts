import { closeClient, type Store } from '#db/connect.ts';
import { connectRelay } from '#server/store.ts';

/** Partitions made ahead of the head: fifty million positions each, an hour's worth at the fastest. */
const AHEAD = 2;
/** Making one waits for locks that others hold for moments. */
const TIMEOUT_MS = 30_000;
/** A small part of the time in which the partitions ahead could be filled. */
export const PARTITION_CHECK_MS = 10 * 60_000;

/** Makes the log's next partitions where they are missing. Any number of servers may do so at once. */
export async function makePartitions(store: Store): Promise<void> {
  const client = await connectRelay(store, TIMEOUT_MS);
  try {
    await client.query('select daybook.create_partitions($1)', [AHEAD]);
  } finally {
    await closeClient(client);
  }
}

/** Makes them again and again while the server runs; a failure is told and made good the next time. */
export function keepPartitions(store: Store, everyMs: number, onError: (error: unknown) => void): { close(): void } {
  const timer = setInterval(() => void makePartitions(store).catch(onError), everyMs);
  return { close: () => clearInterval(timer) };
}

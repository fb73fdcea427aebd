import { externalStore, type Store, StoreError } from '#db/postgres/connect.ts';
import { connectEmbedded } from '#db/postgres/embedded/embedded.ts';

/**
 * The database that another process has opened and watches: a server's own, or the operator's.
 * @throws {StoreError} when none runs; the message is for the operator.
 */
export async function attachStore({
  DATABASE_URL,
  DAYBOOK_DATA,
}: {
  DATABASE_URL?: string | undefined;
  DAYBOOK_DATA: string;
}): Promise<Store> {
  if (DATABASE_URL !== undefined) return externalStore(DATABASE_URL);
  const running = await connectEmbedded(DAYBOOK_DATA);
  if (running === null)
    throw new StoreError(
      `no PostgreSQL runs in ${DAYBOOK_DATA} (DAYBOOK_DATA): start the server first, or set DATABASE_URL`,
    );
  return running;
}

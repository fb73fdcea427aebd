import type { Client } from 'pg';
import type { Command } from '#db/command-line/command.ts';
import { closeClient, connectAs, type Role } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { type Config, readConfig } from '#server/process/config.ts';

/**
 * Making the tree of a long log anew reads all of it, page by page; this is for one page, and for a lock that
 * a checkpoint holds.
 */
const STATEMENT_TIMEOUT_MS = 120_000;

/** Runs a command on the log over a connection as this role, which may take its time. */
export async function onLog(
  command: Command,
  role: Role,
  work: (client: Client, config: Config) => Promise<void>,
): Promise<void> {
  const config = readConfig(command.surroundings.env);
  const { store, close } = await borrowStore(config, () => {});
  try {
    await migrate(store);
    const client = await connectAs(store, role, STATEMENT_TIMEOUT_MS);
    try {
      await work(client, config);
    } finally {
      await closeClient(client);
    }
  } finally {
    await close();
  }
}

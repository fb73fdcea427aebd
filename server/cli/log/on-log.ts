import type { Client } from 'pg';
import type { Command } from '#db/command-line/command.ts';
import { closeClient, connectAs, type Role } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { requireDatabase } from '#server/cli/remote/choose-server.ts';
import { type Config, readConfig } from '#server/process/config.ts';

/**
 * Covers one page of a rebuild of the log's tree, or a wait for the lock that signing a checkpoint takes.
 */
const STATEMENT_TIMEOUT_MS = 120_000;

/** Runs a command on the log over a connection with this role and a long statement timeout. */
export async function onLog(
  command: Command,
  role: Role,
  work: (client: Client, config: Config) => Promise<void>,
): Promise<void> {
  requireDatabase(command);
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

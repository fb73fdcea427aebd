import type { Client } from 'pg';
import type { Command } from '#db/command-line/command.ts';
import { print } from '#db/command-line/print.ts';
import { migrate } from '#db/schema/migrate.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { type Config, readConfig } from '#server/process/config.ts';
import { type Control, withControl } from '#server/control/control.ts';
import { chooseServer, requireDatabase } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';

/** The configuration and the connection of a command. */
export type Session = { config: Config; control: Control; client: Client };

type Options<T> = {
  /** The actor recorded in the events. */
  actor?: string;
  /** Does the same at a server; absent: the command works beside the database only. */
  remote?: (api: ManagementApi) => Promise<T>;
};

/**
 * Runs a command at the server that the user has chosen, or on the configured database: that of the running
 * server, or one started for the command. The result is printed as JSON, or formatted by `show`.
 */
export async function run<T>(
  command: Command,
  work: (session: Session) => Promise<T>,
  show: (result: T) => string,
  { actor = 'command-line', remote }: Options<T> = {},
): Promise<void> {
  if (remote === undefined) requireDatabase(command);
  else {
    const api = chooseServer(command);
    if (api) return print(command, await remote(api), show);
  }
  const config = readConfig(command.surroundings.env);
  const { store, close } = await borrowStore(config, () => {});
  try {
    await migrate(store);
    const result = await withControl(store, actor, (control, client) => work({ config, control, client }));
    print(command, result, show);
  } finally {
    await close();
  }
}

import { addressFor, createAuditorLogin, dropAuditorLogin } from '#db/postgres/auditor-login.ts';
import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import type { Store } from '#db/postgres/connect.ts';
import { migrate } from '#db/schema/migrate.ts';
import { borrowStore } from '#db/postgres/store.ts';
import { type Config, readConfig } from '#server/process/config.ts';

/** `daybook auditor-login …`: PostgreSQL logins that can read the log and nothing else. */
export function auditorLoginCommands(program: Command): void {
  const login = program
    .command('auditor-login')
    .description('PostgreSQL logins with which auditors read and verify the log, read-only');

  withJson(login.command('create').argument('<name>', 'the name of the PostgreSQL login'))
    .description('create a login and print its connection URL, which is shown once')
    .action((name: string, _options: object, command: Command) =>
      onStore(command, async (store, { DATABASE_URL }) => {
        const password = await createAuditorLogin(store, name);
        print(
          command,
          { login: name, database_url: addressFor(store, name, password, DATABASE_URL) },
          showMade,
        );
      }),
    );

  withJson(login.command('drop').argument('<name>', 'the name of the PostgreSQL login'))
    .description('drop a login')
    .action((name: string, _options: object, command: Command) =>
      onStore(command, async (store) => {
        await dropAuditorLogin(store, name);
        print(command, { dropped: name }, ({ dropped }) => `${dropped} is dropped.`);
      }),
    );
}

async function onStore(
  command: Command,
  work: (store: Store, config: Config) => Promise<void>,
): Promise<void> {
  const config = readConfig(command.surroundings.env);
  const { store, close } = await borrowStore(config, () => {});
  try {
    await migrate(store);
    await work(store, config);
  } finally {
    await close();
  }
}

function showMade({ login, database_url }: { login: string; database_url: string }): string {
  return [
    `${login} can read the log and change nothing. Its connection URL is shown only once:`,
    '',
    `  export DATABASE_URL='${database_url}'`,
    '',
    'To verify the log with it, from a copy of this program: npm run -s audit -- verify',
  ].join('\n');
}

import type { Command } from '#db/command-line/command.ts';
import { print, withJson } from '#db/command-line/print.ts';
import { externalStore } from '#db/postgres/connect.ts';
import { roleScript } from '#db/postgres/role-script.ts';
import { readConfig } from '#server/process/config.ts';

const DEFAULT_OWNER = 'daybook';

type Options = { owner?: string; service?: string };

/** `daybook db roles`: what an administrator of the database has to run. Connects to nothing. */
export function databaseCommands(program: Command): void {
  const database = program.command('db').description('the PostgreSQL server of your own');

  withJson(database.command('roles'))
    .description(
      'print the SQL with which an administrator creates the roles where the user of DATABASE_URL may not',
    )
    .option('--owner <login>', 'the login that migrates; the user of DATABASE_URL by default')
    .option('--service <login>', 'a login for servers and workers, which owns nothing')
    .action((options: Options, command: Command) => {
      const { DATABASE_URL } = readConfig(command.surroundings.env);
      const user = DATABASE_URL === undefined ? undefined : externalStore(DATABASE_URL).config('owner').user;
      const script = roleScript({
        owner: options.owner ?? user ?? DEFAULT_OWNER,
        service: options.service ?? null,
      });
      print(command, { script }, () => script);
    });
}

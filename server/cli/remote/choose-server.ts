import { Option } from 'commander';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { readEnvironment } from '#db/environment.ts';
import { checkServer, ManagementApi } from '#server/cli/remote/management-api.ts';
import { readLogin } from '#server/cli/remote/login-file.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ConfigError } from '#server/process/config.ts';

/** Where a command works: at a server, by its management API, or beside the database. */

const KEY_VARIABLE = 'DAYBOOK_MANAGEMENT_KEY';
/** In place of an address: the database, whatever server the user has logged in to. */
const DATABASE = 'database';

/** Adds `--json`, and `--server` to a command that has a counterpart in the management API. */
export function withServer(command: Command): Command {
  return withJson(command).addOption(
    new Option(
      '--server <url>',
      `the server, or "${DATABASE}"; without it that of daybook login, and without a login the database`,
    ).env('DAYBOOK_SERVER'),
  );
}

/** The chosen server; null: the database. @throws {DecisionError} when there is no key for it. */
export function chooseServer(command: Command): ManagementApi | null {
  const { env } = command.surroundings;
  const { server } = command.opts<{ server?: string }>();
  const address = server ?? (env['DAYBOOK_SERVER'] || undefined);
  if (address === DATABASE) return null;
  const login = readLogin(env);
  if (address === undefined) return login && new ManagementApi(login);
  const { [KEY_VARIABLE]: given } = readEnvironment(env, [KEY_VARIABLE], (line) => new ConfigError(line));
  const key = given ?? (login?.server === checkServer(address) ? login.key : undefined);
  if (key === undefined)
    throw new DecisionError(
      'invalid',
      `A server needs a management key. Run: daybook login ${address}, or set ${KEY_VARIABLE}_FILE.`,
    );
  return new ManagementApi({ server: address, key });
}

/** The chosen server. @throws {DecisionError} without one. */
export function requireServer(command: Command): ManagementApi {
  const api = chooseServer(command);
  if (api) return api;
  throw new DecisionError(
    'invalid',
    'This command asks a running server. Run: daybook login http://127.0.0.1:4000, with a management key.',
  );
}

/** @throws {DecisionError} when a command that works beside the database only would be at the wrong place. */
export function requireDatabase(command: Command): void {
  if (chooseServer(command) === null) return;
  throw new DecisionError(
    'not_allowed',
    `This command works beside the database only. Run it there, or set DAYBOOK_SERVER=${DATABASE}.`,
  );
}

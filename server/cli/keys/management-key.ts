import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { MANAGEMENT_SCOPES, type ManagementScope } from '#db/events/management-scopes.ts';
import { KeyName } from '#db/events/parts.ts';
import { ManagementScopes } from '#db/events/management-key-events.ts';
import { managementKeyState } from '#db/fold/management-key.ts';
import { run } from '#server/cli/control-session.ts';
import { parseTime } from '#server/cli/keys/key-restrict.ts';
import type { Control } from '#server/control/control.ts';
import { ManagementKeyControl } from '#server/control/management-key-control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { loadPepper } from '#server/secrets/pepper.ts';

/** `daybook management-key …` */
export function managementKeyCommands(program: Command): void {
  const key = program.command('management-key').description('keys of the management API');

  withJson(key.command('create'))
    .description('create a management key and print its secret, which is shown once')
    .requiredOption(
      '--scopes <list>',
      `its scopes, separated by commas: ${MANAGEMENT_SCOPES.join(', ')}; write includes read`,
    )
    .option('--account <name>', 'the one account that it manages; default: the whole installation')
    .option('--name <name>', 'a name that says what the key is for', 'management key')
    .option('--expires <time>', 'when the key expires, as ISO 8601, such as 2027-01-31T00:00:00Z')
    .action(
      (options: { scopes: string; account?: string; name: string; expires?: string }, command: Command) =>
        run(
          command,
          async ({ config, control, client }) => {
            const name = KeyName.safeParse(options.name);
            if (!name.success) throw new DecisionError('invalid', 'A key name has 1 to 100 characters.');
            const { id, secret } = await new ManagementKeyControl(control).create(
              await loadPepper(client, config),
              {
                name: name.data,
                scopes: parseScopes(options.scopes),
                account: options.account ?? null,
                expiresAt: options.expires === undefined ? null : parseTime(options.expires),
              },
            );
            return { id, key: secret };
          },
          ({ id, key: secret }) =>
            `Management key ${id}. Its secret is shown this once; store it safely:\n\n  ${secret}\n`,
        ),
    );

  withJson(key.command('revoke').argument('<id>', "the management key's id"))
    .description('revoke a management key permanently')
    .action((id: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          await new ManagementKeyControl(control).revoke(id);
          return { id, state: 'revoked' };
        },
        () => `Management key ${id} is revoked. Running servers reject it within a second.`,
      ),
    );

  withJson(key.command('list'))
    .description('list management keys, without secrets')
    .action((_options: unknown, command: Command) =>
      run(command, ({ control }) => listKeys(control), showKeys),
    );
}

function parseScopes(text: string): ManagementScope[] {
  const parsed = ManagementScopes.safeParse(text.split(',').map((scope) => scope.trim()));
  if (!parsed.success)
    throw new DecisionError(
      'invalid',
      `"${text}" is not a list of different scopes. Scopes: ${MANAGEMENT_SCOPES.join(', ')}.`,
    );
  return parsed.data;
}

type Listed = {
  id: string;
  name: string;
  last4: string;
  state: string;
  scopes: readonly ManagementScope[];
  /** Null: it manages the whole installation. */
  account: string | null;
  created_at: string;
  created_by: string;
  expires_at: string | null;
};

async function listKeys(control: Control): Promise<Listed[]> {
  const model = await control.load();
  const now = new Date(model.nowMs());
  return [...model.managementKeys.all].map((key) => ({
    id: key.id,
    name: key.name,
    last4: key.secret.last4,
    state: managementKeyState(key, now),
    scopes: key.scopes,
    account: key.account === null ? null : (model.account(key.account)?.name ?? key.account),
    created_at: key.createdAt.toISOString(),
    created_by: key.createdBy,
    expires_at: key.expiresAt?.toISOString() ?? null,
  }));
}

function showKeys(keys: Listed[]): string {
  if (keys.length === 0)
    return (
      'There are no management keys yet. Create one with: ' +
      'npm run -s daybook -- management-key create --scopes accounts:read'
    );
  return showTable(
    ['ID', 'STATE', 'SECRET', 'ACCOUNT', 'NAME', 'EXPIRES', 'SCOPES'],
    keys.map((key) => [
      key.id,
      key.state,
      `…${key.last4}`,
      key.account ?? 'all',
      key.name,
      key.expires_at ?? 'never',
      key.scopes.join(', '),
    ]),
  );
}

import type { Command } from 'commander';
import { AccountName } from '#db/events.ts';
import { run, withJson } from '#server/cli/session.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** `daybook account …` */
export function accountCommands(program: Command): void {
  const account = program.command('account').description('who owns keys and quota');

  withJson(account.command('create <name>'))
    .description('register an account')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        ({ control }) => control.createAccount(checkName(name)),
        (created) => `Account "${created.name}" is registered (${created.id}).`,
      ),
    );

  withJson(account.command('suspend <name>'))
    .description("refuse all calls with the account's keys, until it is reinstated")
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          await control.suspendAccount(name);
          return { name, state: 'suspended' };
        },
        () => `Account "${name}" is suspended.`,
      ),
    );

  withJson(account.command('reinstate <name>'))
    .description('allow the calls of a suspended account again')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          await control.reinstateAccount(name);
          return { name, state: 'active' };
        },
        () => `Account "${name}" is active.`,
      ),
    );
}

function checkName(name: string): string {
  const parsed = AccountName.safeParse(name);
  if (!parsed.success) throw new DecisionError('invalid', 'An account name has 1 to 100 characters.');
  return parsed.data;
}

import type { z } from 'zod';
import type { Command } from '#db/command-line/command.ts';
import { showTable } from '#db/command-line/table.ts';
import { AccountName } from '#db/events/parts.ts';
import { PlanTerms } from '#db/events/events.ts';
import { formatDollars, parseAmount } from '#db/money.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { ManagementApi } from '#server/cli/remote/management-api.ts';
import type { AccountRow, CreatedAccount } from '#server/contract/accounts.ts';
import { readTerms, windowsOption } from '#server/cli/accounts/terms-file.ts';
import { isChange } from '#server/control/change.ts';
import type { Control } from '#server/control/control.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { NO_PLAN, type WindowsChoice } from '#server/decide/plan.ts';

/** `daybook account …` */
export function accountCommands(program: Command): void {
  const account = program.command('account').description('accounts, which own keys and limits');

  withServer(account.command('create').argument('<name>', "the account's name"))
    .description('create an account')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const { id } = await control.createAccount(checkName(name));
          return { id, name: checkName(name) };
        },
        (created) => `Account "${created.name}" is created (${created.id}).`,
        {
          async remote(api) {
            const { id } = await api.post<z.infer<typeof CreatedAccount>>('accounts', {
              name: checkName(name),
            });
            return { id, name: checkName(name) };
          },
        },
      ),
    );

  withServer(account.command('suspend').argument('<name>', "the account's name"))
    .description("reject all calls with the account's keys until it is reinstated")
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          await control.suspendAccount(name);
          return { name, state: 'suspended' };
        },
        () => `Account "${name}" is suspended.`,
        {
          async remote(api) {
            await api.post(`${await pathOf(api, name)}/suspend`);
            return { name, state: 'suspended' };
          },
        },
      ),
    );

  withServer(account.command('reinstate').argument('<name>', "the account's name"))
    .description('allow calls of a suspended account')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          await control.reinstateAccount(name);
          return { name, state: 'active' };
        },
        () => `Account "${name}" is active.`,
        {
          async remote(api) {
            await api.post(`${await pathOf(api, name)}/reinstate`);
            return { name, state: 'active' };
          },
        },
      ),
    );

  withServer(account.command('list'))
    .description('list accounts')
    .action((_options: unknown, command: Command) =>
      run(command, ({ control }) => listAccounts(control), showAccounts, {
        remote: async (api) => (await api.list<AccountRow>('accounts')).map(listed).toReversed(),
      }),
    );

  withServer(
    account
      .command('set-plan')
      .argument('<name>', "the account's name")
      .argument('<plan>', "the plan's name, or none"),
  )
    .description('assign a plan to an account, or none')
    .addOption(windowsOption('--window'))
    .action((name: string, plan: string, { window }: { window: WindowsChoice }, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const chosen = plan === NO_PLAN ? null : plan;
          return { name, plan: chosen, changed: isChange(await control.setPlan(name, chosen, window)) };
        },
        ({ plan: chosen, changed }) => {
          const state =
            chosen === null
              ? `Account "${name}" has no plan; only an override can limit it.`
              : `Account "${name}" has the plan "${chosen}".`;
          return changed ? state : `${state} Nothing changed.`;
        },
        {
          async remote(api) {
            const chosen = plan === NO_PLAN ? null : plan;
            const path = await pathOf(api, name);
            const change = await api.put(`${path}/plan`, { plan: chosen, windows: window });
            return { name, plan: chosen, changed: isChange(change) };
          },
        },
      ),
    );

  withServer(
    account
      .command('parent')
      .argument('<name>', "the account's name")
      .argument('<parent>', "the parent account's name, or none"),
  )
    .description("put an account below another one: its calls are charged to the parent's limits, too")
    .action((name: string, parent: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const chosen = parent === NO_PARENT ? null : parent;
          return { name, parent: chosen, changed: isChange(await control.setParent(name, chosen)) };
        },
        ({ parent: chosen, changed }) => {
          const state =
            chosen === null
              ? `Account "${name}" has no parent account.`
              : `Account "${name}" is below account "${chosen}".`;
          return changed ? state : `${state} Nothing changed.`;
        },
        {
          async remote(api) {
            const chosen = parent === NO_PARENT ? null : parent;
            const id = chosen === null ? null : (await api.account(chosen)).id;
            const change = await api.put(`${await pathOf(api, name)}/parent`, { parent: id });
            return { name, parent: chosen, changed: isChange(change) };
          },
        },
      ),
    );

  withServer(account.command('top-up').argument('<name>', "the account's name"))
    .description('add money to the prepaid balance of an account, once for each reference')
    .requiredOption('--amount <dollars>', 'US dollars, such as 25 or 1000.50')
    .requiredOption('--reference <text>', 'the payment or invoice, for the event log; at most 200 characters')
    .action((name: string, options: { amount: string; reference: string }, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const amount = readAmount(options.amount);
          const { event } = await control.topUp(name, { amount, reference: options.reference });
          return { name, amount_nanousd: amount, position: event?.position ?? null };
        },
        ({ amount_nanousd: amount, position }) =>
          `Account "${name}" is topped up by $${formatDollars(amount)}, at position ${position} of the log.`,
        {
          async remote(api) {
            const amount = readAmount(options.amount);
            const { event } = await api.post(`${await pathOf(api, name)}/top-ups`, {
              amount_nanousd: amount,
              reference: options.reference,
            });
            return { name, amount_nanousd: amount, position: event?.position ?? null };
          },
        },
      ),
    );

  withServer(account.command('override').argument('<name>', "the account's name"))
    .description("override an account's plan: each field replaces the plan's, {} removes the override")
    .requiredOption('--file <terms.json>', 'a JSON file with the terms, in the format of a plan')
    .addOption(windowsOption('--window'))
    .action((name: string, { file, window }: { file: string; window: WindowsChoice }, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const terms = readTerms(PlanTerms, file);
          return { name, terms, changed: isChange(await control.overrideTerms(name, terms, window)) };
        },
        ({ terms, changed }) => {
          if (!changed) return `Account "${name}" has these terms already.`;
          return Object.keys(terms).length === 0
            ? `Account "${name}" has no override.`
            : `Account "${name}" overrides its plan: ${Object.keys(terms).join(', ')}.`;
        },
        {
          async remote(api) {
            const terms = readTerms(PlanTerms, file);
            const path = await pathOf(api, name);
            const change = await api.put(`${path}/override`, { terms, windows: window });
            return { name, terms, changed: isChange(change) };
          },
        },
      ),
    );
}

/** The path of an account at a server. */
const pathOf = async (api: ManagementApi, name: string): Promise<string> =>
  `accounts/${(await api.account(name)).id}`;

function readAmount(text: string): number {
  const amount = parseAmount(text);
  if (amount === null || amount === 0)
    throw new DecisionError('invalid', '--amount must be dollars above 0, such as 25 or 1000.50.');
  return amount;
}

/** In place of a parent account's name. */
const NO_PARENT = 'none';

type Listed = {
  id: string;
  name: string;
  state: string;
  plan: string | null;
  /** The name of its parent account. */
  parent: string | null;
  topped_up_nanousd: number;
  overrides: string[];
  keys: number;
};

async function listAccounts(control: Control): Promise<Listed[]> {
  const model = await control.load();
  const keys = Map.groupBy(model.keys, (key) => key.account);
  return [...model.accounts].map(({ id, name, state, plan, parent, toppedUp, override }) => ({
    id,
    name,
    state,
    plan,
    parent: parent === null ? null : (model.account(parent)?.name ?? parent),
    topped_up_nanousd: toppedUp,
    overrides: Object.keys(override ?? {}),
    keys: keys.get(id)?.length ?? 0,
  }));
}

const listed = ({ parent, override, ...row }: AccountRow): Listed => ({
  id: row.id,
  name: row.name,
  state: row.state,
  plan: row.plan,
  parent: parent?.name ?? null,
  topped_up_nanousd: row.topped_up_nanousd,
  overrides: Object.keys(override ?? {}),
  keys: row.keys,
});

function showAccounts(accounts: Listed[]): string {
  return showTable(
    ['ID', 'STATE', 'PLAN', 'KEYS', 'NAME', 'PARENT', 'OVERRIDES'],
    accounts.map(({ id, state, plan, keys, name, parent, overrides }) => [
      id,
      state,
      plan ?? '-',
      String(keys),
      name,
      parent ?? '-',
      overrides.join(', ') || '-',
    ]),
  );
}

function checkName(name: string): string {
  const parsed = AccountName.safeParse(name);
  if (!parsed.success) throw new DecisionError('invalid', 'An account name has 1 to 100 characters.');
  return parsed.data;
}

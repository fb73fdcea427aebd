import type { Command } from '#db/command-line/command.ts';
import { showTable } from '#db/command-line/table.ts';
import { PlanTerms } from '#db/events/events.ts';
import { limitsOf } from '#db/limits/limits.ts';
import { isByUsage, type Meter, reservedAmount } from '#db/limits/meters.ts';
import { run } from '#server/cli/control-session.ts';
import { withServer } from '#server/cli/remote/choose-server.ts';
import type { PlanRow } from '#server/contract/accounts.ts';
import { readTerms, windowsOption } from '#server/cli/accounts/terms-file.ts';
import { isChange } from '#server/control/change.ts';
import type { Control } from '#server/control/control.ts';
import { checkPlanName, requirePlan, type WindowsChoice } from '#server/decide/plan.ts';
import { overdraftMaxOf } from '#server/relay/usage-report.ts';

/** `daybook plan …` */
export function planCommands(program: Command): void {
  const plan = program
    .command('plan')
    .description('plans, which limit models, routes, origins, rates and quotas of accounts');

  withServer(plan.command('define').argument('<name>', "the plan's name"))
    .description('create a plan, or replace its terms')
    .requiredOption('--file <plan.json>', 'a JSON file with all terms; absent fields are not limited')
    .addOption(windowsOption('--windows'))
    .action((name: string, { file, windows }: { file: string; windows: WindowsChoice }, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const { event } = await control.definePlan(
            checkPlanName(name),
            readTerms(PlanTerms, file),
            windows,
          );
          return { name, outcome: outcomeOf(event) };
        },
        ({ outcome }) =>
          outcome === 'unchanged'
            ? `Plan "${name}" has these terms already.`
            : `Plan "${name}" is ${outcome}.`,
        {
          async remote(api) {
            const { event } = await api.put(`plans/${encodeURIComponent(checkPlanName(name))}`, {
              terms: readTerms(PlanTerms, file),
              windows,
            });
            return { name, outcome: outcomeOf(event) };
          },
        },
      ),
    );

  withServer(plan.command('list'))
    .description('list plans')
    .action((_options: unknown, command: Command) =>
      run(command, ({ control }) => listPlans(control), showPlans, {
        remote: async (api) =>
          (await api.list<PlanRow>('plans')).map(({ name, state, version, accounts }) => ({
            name,
            state,
            version,
            accounts,
          })),
      }),
    );

  withServer(plan.command('show').argument('<name>', "the plan's name"))
    .description(
      'print the terms of a plan as a file for plan define, and how far soft limits can be exceeded',
    )
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          const model = await control.load();
          return describePlan(requirePlan(model.plan(name), name), countAccounts(model.accounts, name));
        },
        showPlan,
        {
          async remote(api) {
            const found = (await api.list<PlanRow>('plans')).find((each) => each.name === name);
            const { accounts, ...row } = requirePlan(found, name);
            return describePlan(row, accounts);
          },
        },
      ),
    );

  withServer(plan.command('retire').argument('<name>', "the plan's name"))
    .description('retire a plan permanently; calls of accounts that still have it are rejected with 403')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => ({
          name,
          state: 'retired',
          changed: isChange(await control.retirePlan(name)),
        }),
        ({ changed }) => (changed ? `Plan "${name}" is retired.` : `Plan "${name}" is retired already.`),
        {
          async remote(api) {
            const change = await api.post(`plans/${encodeURIComponent(checkPlanName(name))}/retire`);
            return { name, state: 'retired', changed: isChange(change) };
          },
        },
      ),
    );
}

const outcomeOf = (event: { type: string } | null): string =>
  event === null ? 'unchanged' : event.type === 'plan.defined' ? 'defined' : 'changed';

type Summary = { name: string; state: string; version: number; accounts: number };
type Described = Summary & { terms: PlanTerms; overdrafts: { quota: string; tokens: number | null }[] };

function countAccounts(accounts: Iterable<{ plan: string | null }>, name: string): number {
  return [...accounts].filter(({ plan }) => plan === name).length;
}

async function listPlans(control: Control): Promise<Summary[]> {
  const model = await control.load();
  return [...model.plans]
    .map(({ name, state, version }) => ({
      name,
      state,
      version,
      accounts: countAccounts(model.accounts, name),
    }))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1));
}

function showPlans(plans: Summary[]): string {
  if (plans.length === 0)
    return 'There are no plans yet. Define one with: npm run -s daybook -- plan define NAME --file plan.json';
  return showTable(
    ['NAME', 'STATE', 'VERSION', 'ACCOUNTS'],
    plans.map(({ name, state, version, accounts }) => [name, state, String(version), String(accounts)]),
  );
}

function describePlan(
  { name, state, version, terms }: Omit<PlanRow, 'accounts'>,
  accounts: number,
): Described {
  const limits = limitsOf(terms, 0);
  const subject = { subject: name, limits, position: 0, replyTokensMax: terms.reply_tokens_max ?? null };
  const overdrafts = limits
    .filter(({ meter, window }) => isByUsage(meter) && window !== 'minute')
    .filter(({ enforcement }) => enforcement === 'soft')
    .map((limit) => ({
      quota: `${limit.meter}/${limit.window}`,
      tokens: overdraftMaxOf({ ...limit, meter: 'tokens' }, subject),
    }));
  return { name, state, version, accounts, terms, overdrafts };
}

function showPlan({ name, state, version, accounts, terms, overdrafts }: Described): string {
  const assigned = `${accounts} ${accounts === 1 ? 'account' : 'accounts'}`;
  return [
    `Plan "${name}" is ${state}, version ${version}, with ${assigned}.`,
    JSON.stringify(terms, null, 2),
    ...overdrafts.map(({ quota, tokens }) =>
      reservedAmount(quota.split('/')[0] as Meter) === 'tokens'
        ? `The soft quota ${quota} can be exceeded by at most ${tokens} tokens.`
        : `The soft quota ${quota} can be exceeded by at most the cost of ${tokens} reply tokens.`,
    ),
  ].join('\n');
}

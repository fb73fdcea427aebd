import type { Command, Surroundings } from '#db/command-line/command.ts';
import { buildCommands, codeOfStore, type Program, runCommands } from '#db/command-line/run.ts';
import { ConfigError } from '#server/process/config.ts';
import { DecisionError } from '#server/decide/decision.ts';

type AddCommands = (program: Command) => void;

/** Commands of one subject: their names after `daybook`, and the module that adds them. */
type Group = { names: readonly string[]; load: () => Promise<AddCommands> };

/**
 * All commands, in the order of the help. Loaded on demand, since a command needs few of these modules
 * and loading all takes longer than most commands run.
 */
const GROUPS: readonly Group[] = [
  {
    names: ['start', 'worker', 'migrate'],
    load: async () => (await import('#server/cli/start.ts')).startCommands,
  },
  {
    names: ['login', 'logout', 'open'],
    load: async () => (await import('#server/cli/remote/login.ts')).loginCommands,
  },
  {
    names: ['upstream', 'upstreams'],
    load: async () => (await import('#server/cli/upstreams/upstream.ts')).upstreamCommands,
  },
  {
    names: ['credential', 'credentials', 'rekey'],
    load: async () => (await import('#server/cli/upstreams/credential.ts')).credentialCommands,
  },
  {
    names: ['model', 'models'],
    load: async () => (await import('#server/cli/upstreams/model.ts')).modelCommands,
  },
  {
    names: ['apply', 'drift'],
    load: async () => (await import('#server/cli/upstreams/apply.ts')).applyCommand,
  },
  { names: ['account'], load: async () => (await import('#server/cli/accounts/account.ts')).accountCommands },
  {
    names: ['requests'],
    load: async () => (await import('#server/cli/remote/requests.ts')).requestCommands,
  },
  { names: ['usage'], load: async () => (await import('#server/cli/accounts/usage.ts')).usageCommands },
  {
    names: ['statement', 'invoice'],
    load: async () => (await import('#server/cli/accounts/statement.ts')).statementCommands,
  },
  {
    names: ['statement-email'],
    load: async () => (await import('#server/cli/accounts/statement-email.ts')).statementEmailCommands,
  },
  {
    names: ['attribution'],
    load: async () => (await import('#server/cli/accounts/attribution.ts')).attributionCommands,
  },
  { names: ['plan'], load: async () => (await import('#server/cli/accounts/plan.ts')).planCommands },
  {
    names: ['management-key'],
    load: async () => (await import('#server/cli/keys/management-key.ts')).managementKeyCommands,
  },
  { names: ['key'], load: async () => (await import('#server/cli/keys/key.ts')).keyCommands },
  {
    names: ['price', 'prices'],
    load: async () => (await import('#server/cli/prices/price.ts')).priceCommands,
  },
  { names: ['backtest'], load: async () => (await import('#server/cli/backtest.ts')).backtestCommand },
  {
    names: ['reconcile'],
    load: async () => (await import('#server/cli/reconcile/reconcile.ts')).reconcileCommands,
  },
  { names: ['setup'], load: async () => (await import('#server/cli/setup/setup.ts')).setupCommand },
  {
    names: ['setup-link', 'member'],
    load: async () => (await import('#server/cli/accounts/member.ts')).memberCommands,
  },
  {
    names: ['identity-provider', 'sign-in'],
    load: async () => (await import('#server/cli/accounts/identity-provider.ts')).identityProviderCommands,
  },
  { names: ['workload'], load: async () => (await import('#server/cli/keys/workload.ts')).workloadCommands },
  { names: ['log'], load: async () => (await import('#server/cli/log/log.ts')).logCommands },
  { names: ['audit'], load: async () => (await import('#db/audit/commands/program.ts')).auditCommands },
  { names: ['witness'], load: async () => (await import('#db/audit/commands/witness.ts')).witnessCommand },
  { names: ['archive'], load: async () => (await import('#server/cli/log/archive.ts')).archiveCommands },
  { names: ['backup', 'restore'], load: async () => (await import('#db/backup/commands.ts')).backupCommands },
  { names: ['sink'], load: async () => (await import('#server/cli/sinks/sink.ts')).sinkCommands },
  {
    names: ['destination'],
    load: async () => (await import('#server/cli/destination.ts')).destinationCommands,
  },
  {
    names: ['projections'],
    load: async () => (await import('#server/cli/log/projections.ts')).projectionCommands,
  },
  {
    names: ['auditor-login'],
    load: async () => (await import('#server/cli/log/auditor-login.ts')).auditorLoginCommands,
  },
  { names: ['db'], load: async () => (await import('#server/cli/database.ts')).databaseCommands },
  { names: ['doctor'], load: async () => (await import('#server/cli/doctor/doctor.ts')).doctorCommand },
  {
    names: ['completion'],
    load: async () => {
      const { completionCommand } = await import('#server/cli/completion.ts');
      const silent = (): void => undefined;
      return completionCommand(() => buildProgram({ env: {}, out: silent, err: silent }));
    },
  },
];

const PROGRAM: Omit<Program, 'groups'> = {
  name: 'daybook',
  description:
    'Manages upstreams, models, accounts, plans, keys, prices and the log of a Daybook relay. ' +
    'Configured by the same environment as the server.',
  codeOf,
};

/** The commander tree of `daybook` with all commands, without running any. */
export const buildProgram = async (surroundings: Surroundings): Promise<Command> =>
  buildCommands({ ...PROGRAM, groups: await load(GROUPS) }, surroundings);

/**
 * Runs `npm run -s daybook -- …`, beside a running server.
 * @param args those after the program's name.
 * @returns the exit code.
 */
export async function runProgram(args: readonly string[], surroundings: Surroundings): Promise<number> {
  const name = args.find((arg) => !arg.startsWith('-'));
  const named = GROUPS.filter(({ names }) => name !== undefined && names.includes(name));
  // Help and suggestions for a misspelled command need all of them.
  const groups = await load(named.length > 0 ? named : GROUPS);
  return runCommands({ ...PROGRAM, groups }, args, surroundings);
}

const load = (groups: readonly Group[]): Promise<AddCommands[]> =>
  Promise.all(groups.map((group) => group.load()));

function codeOf(error: Error): string | null {
  if (error instanceof DecisionError) return error.code;
  return error instanceof ConfigError ? 'unavailable' : codeOfStore(error);
}

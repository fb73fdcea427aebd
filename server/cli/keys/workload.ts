import { readFile } from 'node:fs/promises';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import type { WorkloadCondition } from '#db/events/identity/workload-events.ts';
import { countLiveExchanges } from '#db/workloads/exchanges.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { PutWorkload } from '#server/contract/identity/workloads.ts';
import { WorkloadControl } from '#server/control/workload-control.ts';
import { requireAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { loadPepper } from '#server/secrets/pepper.ts';

type SetOptions = {
  account?: string;
  issuer?: string;
  audience?: string;
  condition?: string[];
  keyMinutes?: string;
  singleUse?: boolean;
  jwksFile?: string;
  allowPrivate?: boolean;
};

/** `daybook workload …` */
export function workloadCommands(program: Command): void {
  const workload = program
    .command('workload')
    .description('machines that exchange tokens of their platform for short-lived keys');

  withJson(workload.command('set').argument('<name>', 'lower-case letters, digits and "-"'))
    .description('add a workload with its key, or change the options given')
    .option('--account <name>', 'the account that is charged; it can’t be changed')
    .option('--issuer <url>', 'who signs the tokens, such as https://token.actions.githubusercontent.com')
    .option('--audience <text>', 'one of the audiences of each token')
    .option(
      '--condition <claim=value...>',
      'a claim and its value, such as "repository=acme/app"; of one claim any value, of several all',
    )
    .option('--key-minutes <minutes>', 'how long a key lasts, 60 at most; default: 15')
    .option('--single-use', 'exchange each token once (default)')
    .option('--no-single-use', 'exchange a token as often as wanted until it expires')
    .option('--jwks-file <path>', 'the public keys of an issuer that this server can’t reach')
    .option('--allow-private', 'allow an issuer on this machine or in a private network')
    .option('--no-allow-private', 'allow public addresses alone (default)')
    .action((name: string, options: SetOptions, command: Command) =>
      run(
        command,
        (session) => set(session, name, options),
        ({ changed, key }) => `Workload ${name} is ${changed ? 'set' : 'unchanged'}. Its key is ${key}.`,
      ),
    );

  withJson(workload.command('list'))
    .description('list workloads with their conditions')
    .action((_options: unknown, command: Command) => run(command, list, showList));

  withJson(workload.command('remove').argument('<name>', 'the name of the workload'))
    .description('remove a workload and revoke its key: short-lived keys end at once')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control }) => {
          await new WorkloadControl(control).remove(name);
          return { name };
        },
        () => `Workload ${name} is removed, and its key is revoked.`,
      ),
    );
}

async function set(
  { config, control, client }: Session,
  name: string,
  options: SetOptions,
): Promise<{ name: string; changed: boolean; key: string }> {
  const model = await control.load();
  const known = model.workloads.get(name);
  const account =
    options.account === undefined
      ? known?.account
      : requireAccount(model.accountNamed(options.account), options.account).id;
  const parsed = PutWorkload.safeParse({
    ...known?.terms,
    ...defined({
      account,
      issuer: options.issuer,
      audience: options.audience,
      conditions: options.condition && parseConditions(options.condition),
      key_minutes: options.keyMinutes === undefined ? undefined : Number(options.keyMinutes),
      single_use: options.singleUse,
      jwks: options.jwksFile === undefined ? undefined : await readKeys(options.jwksFile),
      network: options.allowPrivate === undefined ? undefined : options.allowPrivate ? 'private' : 'public',
    }),
  });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new DecisionError('invalid', `${issue?.path.join('.')}: ${issue?.message}.`);
  }
  const { account: owner, ...terms } = parsed.data;
  const pepper = await loadPepper(client, config);
  const { event } = await new WorkloadControl(control).configure(pepper, name, { account: owner, terms });
  const after = (await control.load()).workloads.get(name);
  return { name, changed: event !== null, key: after?.key ?? '' };
}

const defined = (values: Readonly<Record<string, unknown>>): object =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

/** `claim=value`, from the left, since values may contain anything. */
function parseConditions(texts: readonly string[]): WorkloadCondition[] {
  const conditions = new Map<string, string[]>();
  for (const text of texts) {
    const at = text.indexOf('=');
    if (at < 1)
      throw new DecisionError(
        'invalid',
        `"${text}" is no condition. Write it as claim=value, such as sub=app.`,
      );
    const claim = text.slice(0, at);
    conditions.set(claim, [...(conditions.get(claim) ?? []), text.slice(at + 1)]);
  }
  return [...conditions].map(([claim, values]) => ({ claim, values }));
}

/** The keys of a file in the format of RFC 7517. */
async function readKeys(path: string): Promise<unknown> {
  try {
    return (JSON.parse(await readFile(path, 'utf8')) as { keys?: unknown }).keys ?? [];
  } catch {
    throw new DecisionError('invalid', `${path} has no JSON with "keys". Write a JSON Web Key Set to it.`);
  }
}

type Listed = {
  name: string;
  account: string;
  key: string;
  issuer: string;
  audience: string;
  conditions: WorkloadCondition[];
  key_minutes: number;
  single_use: boolean;
  live_keys: number;
};

async function list({ control, client }: Session): Promise<Listed[]> {
  const model = await control.load();
  const live = await countLiveExchanges(client);
  return model.workloads.active.map(({ name, account, key, terms }) => ({
    name,
    account: model.account(account)?.name ?? account,
    key,
    issuer: terms.issuer,
    audience: terms.audience,
    conditions: terms.conditions,
    key_minutes: terms.key_minutes,
    single_use: terms.single_use,
    live_keys: live.get(key) ?? 0,
  }));
}

function showList(workloads: Listed[]): string {
  if (workloads.length === 0) return 'There are no workloads yet.';
  return showTable(
    ['NAME', 'ACCOUNT', 'KEY', 'ISSUER', 'CONDITIONS', 'MINUTES', 'LIVE KEYS'],
    workloads.map(({ name, account, key, issuer, conditions, key_minutes: minutes, live_keys: live }) => [
      name,
      account,
      key,
      issuer,
      conditions.map(({ claim, values }) => `${claim}=${values.join('|')}`).join(' '),
      String(minutes),
      String(live),
    ]),
  );
}

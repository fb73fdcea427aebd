import { Option } from 'commander';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import {
  EMPTY_ACCOUNTS,
  type IdentityRule,
  PASSWORD_POLICIES,
  type PasswordPolicy,
} from '#db/events/identity/identity-events.ts';
import { RoleName } from '#db/events/parts.ts';
import { providersWithSecret } from '#db/members/identities.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { readSecret } from '#server/cli/input.ts';
import { PutIdentityProvider } from '#server/contract/members.ts';
import { requireAccount } from '#server/decide/account.ts';
import { DecisionError } from '#server/decide/decision.ts';
import type { ReadModel } from '#server/read-model/read-model.ts';
import { loadPepper } from '#server/secrets/pepper.ts';
import { IdentityControl } from '#server/sign-in/oidc/identity-control.ts';
import { ownOrigin } from '#server/sign-in/origin.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';

type SetOptions = {
  label?: string;
  issuer?: string;
  clientId?: string;
  secret?: true;
  secretFile?: string;
  publicClient?: true;
  scopes?: string;
  groupsClaim?: string;
  rule?: string[];
  linkByEmail?: boolean;
  sessionHours?: string;
  emptyAccounts?: (typeof EMPTY_ACCOUNTS)[number];
  allowPrivate?: boolean;
};

/** `daybook identity-provider …` and `daybook sign-in …` */
export function identityProviderCommands(program: Command): void {
  const provider = program
    .command('identity-provider')
    .description('OpenID providers, through which members sign in');

  withJson(
    provider
      .command('set')
      .argument('<name>', 'lower-case letters, digits and "-"; part of the redirect URI'),
  )
    .description('add a provider, or change the options given')
    .option('--label <text>', 'the name on the button of the sign-in page')
    .option('--issuer <url>', 'the issuer, such as https://login.example.com')
    .option('--client-id <id>', 'the client ID that the provider registered')
    .option('--secret', 'read the client secret from the input')
    .option('--secret-file <path>', 'read the client secret from a file')
    .option('--public-client', 'the provider registered no secret: PKCE alone protects the code')
    .option('--scopes <list>', 'scopes besides openid, separated by commas; default: email,profile')
    .option('--groups-claim <name>', 'the claim with the groups, or its path; default: groups')
    .option(
      '--rule <rule...>',
      'group, role and account: "engineers=member@Acme"; "*" is anyone, no account a new one each',
    )
    .option('--link-by-email', 'a verified email of a member lets its owner in as that member')
    .option('--no-link-by-email', 'a member with the same email keeps a person out (default)')
    .option('--session-hours <hours>', 'how long a session lasts before groups are read again; default: 12')
    .addOption(
      new Option(
        '--empty-accounts <action>',
        'what happens to an account when its last member loses access',
      ).choices(EMPTY_ACCOUNTS),
    )
    .option('--allow-private', 'allow an issuer on this machine or in a private network')
    .option('--no-allow-private', 'allow public addresses alone (default)')
    .action((name: string, options: SetOptions, command: Command) =>
      run(
        command,
        (session) => set(session, command, name, options),
        ({ changed, redirect_uri: uri }) =>
          `Identity provider ${name} is ${changed ? 'set' : 'unchanged'}. ` +
          `Redirect URI to register there:\n\n  ${uri}\n`,
      ),
    );

  withJson(provider.command('list'))
    .description('list providers with their rules, without client secrets')
    .action((_options: unknown, command: Command) => run(command, list, showList));

  withJson(provider.command('remove').argument('<name>', 'the name of the provider'))
    .description('remove a provider, and end the sessions of its members')
    .action((name: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ config, control, client }) => {
          const pepper = await loadPepper(client, config);
          await inTransaction(client, () => new IdentityControl(control, client).remove(pepper, name, null));
          return { name };
        },
        () => `Identity provider ${name} is removed. Sessions of its members have ended.`,
      ),
    );

  const signIn = program.command('sign-in').description('how members sign in to the dashboard');
  withJson(
    signIn
      .command('passwords')
      .argument('<policy>', `who may sign in with a password: ${PASSWORD_POLICIES.join(', ')}`),
  )
    .description('let everyone sign in with a password, or administrators alone')
    .action((text: string, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control, client }) => {
          const passwords = parsePolicy(text);
          await inTransaction(client, () => new IdentityControl(control, client).setPasswords(passwords));
          return { passwords };
        },
        ({ passwords }) => `Password sign-in is for ${passwords}.`,
      ),
    );
}

function parsePolicy(text: string): PasswordPolicy {
  const policy = PASSWORD_POLICIES.find((each) => each === text);
  if (policy === undefined)
    throw new DecisionError('invalid', `"${text}" is no policy. Policies: ${PASSWORD_POLICIES.join(', ')}.`);
  return policy;
}

async function set(
  { config, control, client }: Session,
  command: Command,
  name: string,
  options: SetOptions,
): Promise<{ name: string; changed: boolean; redirect_uri: string }> {
  const model = await control.load();
  const known = model.identities.get(name)?.terms;
  const parsed = PutIdentityProvider.safeParse({
    ...known,
    ...defined({
      label: options.label ?? known?.label ?? name,
      issuer: options.issuer,
      client_id: options.clientId,
      scopes: options.scopes?.split(',').map((scope) => scope.trim()),
      groups_claim: options.groupsClaim,
      rules: options.rule?.map((rule) => parseRule(model, rule)),
      link_by_email: options.linkByEmail,
      session_hours: options.sessionHours === undefined ? undefined : Number(options.sessionHours),
      empty_accounts: options.emptyAccounts,
      network: options.allowPrivate === undefined ? undefined : options.allowPrivate ? 'private' : 'public',
    }),
  });
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw new DecisionError('invalid', `${issue?.path.join('.')}: ${issue?.message}.`);
  }
  const { client_secret: _, ...terms } = parsed.data;
  const isGiven = options.secret === true || options.secretFile !== undefined;
  const secret = isGiven ? await readSecret(command, options.secretFile) : undefined;
  if (secret === '') throw new DecisionError('invalid', 'The client secret is empty.');
  const pepper = await loadPepper(client, config);
  const { done } = await inTransaction(client, () =>
    new IdentityControl(control, client).configure(
      pepper,
      name,
      terms,
      options.publicClient === true ? null : secret,
    ),
  );
  return {
    name,
    changed: done.event !== null,
    redirect_uri: `${ownOrigin(config)}/sign-in/${name}/callback`,
  };
}

const defined = (values: Readonly<Record<string, unknown>>): object =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));

/** `group=role@account`, from the right, since groups may contain anything. */
function parseRule(model: ReadModel, text: string): IdentityRule {
  const [, group = '', roleName = '', account] = /^(.+)=([a-z]+)(?:@(.+))?$/s.exec(text) ?? [];
  const role = RoleName.safeParse(roleName);
  if (group === '' || !role.success)
    throw new DecisionError(
      'invalid',
      `"${text}" is no rule. Write it as group=role@account, such as "engineers=member@Acme".`,
    );
  return {
    group: group === '*' ? null : group,
    role: role.data,
    account: account === undefined ? null : requireAccount(model.accountNamed(account), account).id,
  };
}

type Listed = {
  name: string;
  label: string;
  issuer: string;
  client_id: string;
  client_secret: boolean;
  groups_claim: string;
  session_hours: number;
  empty_accounts: string;
  link_by_email: boolean;
  rules: { group: string | null; role: string; account: string | null }[];
};

async function list({ control, client }: Session): Promise<Listed[]> {
  const model = await control.load();
  const withSecret = await providersWithSecret(client);
  return model.identities.active.map(({ name, terms }) => ({
    name,
    label: terms.label,
    issuer: terms.issuer,
    client_id: terms.client_id,
    client_secret: withSecret.has(name),
    groups_claim: terms.groups_claim,
    session_hours: terms.session_hours,
    empty_accounts: terms.empty_accounts,
    link_by_email: terms.link_by_email,
    rules: terms.rules.map((rule) => ({
      ...rule,
      account: rule.account === null ? null : (model.account(rule.account)?.name ?? rule.account),
    })),
  }));
}

function showList(providers: Listed[]): string {
  if (providers.length === 0) return 'There are no identity providers yet.';
  return showTable(
    ['NAME', 'ISSUER', 'SECRET', 'GROUP', 'ROLE', 'ACCOUNT'],
    providers.flatMap(({ name, issuer, client_secret: hasSecret, rules }) =>
      rules.map(({ group, role, account }, index) => [
        index === 0 ? name : '',
        index === 0 ? issuer : '',
        index === 0 ? (hasSecret ? 'yes' : 'no') : '',
        group ?? '*',
        role,
        account ?? 'a new one each',
      ]),
    ),
  );
}

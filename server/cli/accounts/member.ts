import { Argument } from 'commander';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { ROLES, type Role } from '#db/events/parts.ts';
import {
  hasAdministrator,
  memberByEmail,
  type MemberRow,
  readEmails,
  removeTotp,
} from '#db/members/members.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { Email } from '#server/contract/session.ts';
import { DecisionError } from '#server/decide/decision.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { changeRole, makeResetLink } from '#server/sign-in/member-changes.ts';
import { ownOrigin } from '#server/sign-in/origin.ts';
import { makeSetupLink } from '#server/sign-in/setup.ts';
import { inTransaction } from '#server/sign-in/transaction.ts';

/**
 * `daybook setup-link` and `daybook member …`: for operators with shell access, who may have lost access to
 * the dashboard.
 */
export function memberCommands(program: Command): void {
  withJson(program.command('setup-link'))
    .description('print a one-time link, valid for an hour, that creates the first administrator')
    .action((_options: unknown, command: Command) => run(command, setupLink, ({ link }) => link));

  const member = program.command('member').description('members, who sign in to the dashboard');

  withJson(member.command('list'))
    .description('list members')
    .action((_options: unknown, command: Command) => run(command, list, showList));

  withJson(
    member
      .command('role')
      .argument('<email>', "the member's email address")
      .addArgument(new Argument('<role>', 'the new role').choices(ROLES)),
  )
    .description('change the role of a member')
    .action((email: string, role: Role, _options: unknown, command: Command) =>
      run(
        command,
        (session) => setRole(session, email, role),
        ({ changed }) => (changed ? `${email} is ${role} now.` : `${email} is ${role} already.`),
      ),
    );

  withJson(member.command('reset-link').argument('<email>', "the member's email address"))
    .description('print a one-time link, valid for an hour, that resets the password of a member')
    .option('--drop-code', 'turn off two-factor authentication, for a lost authenticator')
    .action((email: string, options: { dropCode?: true }, command: Command) =>
      run(
        command,
        (session) => resetLink(session, email, options.dropCode === true),
        ({ link }) => link,
      ),
    );
}

async function setupLink({ client, config }: Session): Promise<{ link: string }> {
  if (await hasAdministrator(client)) {
    throw new DecisionError(
      'not_allowed',
      'There is an administrator already. To add another: daybook member role <email> administrator',
    );
  }
  return { link: await makeSetupLink(client, config, ownOrigin(config)) };
}

type Listed = {
  id: string;
  email: string | null;
  account: string;
  role: Role;
  code: boolean;
  added_at: Date;
};

async function list({ control, client }: Session): Promise<Listed[]> {
  const model = await control.load();
  const members = [...model.members].filter(({ state }) => state === 'active');
  const emails = await readEmails(
    client,
    members.map(({ id }) => id),
  );
  return members.map(({ id, account, role, hasTotp, addedAt }) => ({
    id,
    email: emails.get(id) ?? null,
    account: model.account(account)?.name ?? account,
    role,
    code: hasTotp,
    added_at: addedAt,
  }));
}

function showList(members: Listed[]): string {
  return showTable(
    ['ID', 'ROLE', '2FA', 'ADDED', 'EMAIL', 'ACCOUNT'],
    members.map(({ id, role, code, added_at, email, account }) => [
      id,
      role,
      code ? 'yes' : 'no',
      added_at.toISOString(),
      email ?? '-',
      account,
    ]),
  );
}

async function setRole(
  { control, client }: Session,
  email: string,
  role: Role,
): Promise<{ email: string; role: Role; changed: boolean }> {
  const { id } = await requireMember({ client }, email);
  const changed = await inTransaction(client, () => changeRole(control, client, id, role));
  if (changed instanceof ApiError) throw new DecisionError('not_allowed', changed.message);
  return { email, role, changed: changed.done.event !== null };
}

async function resetLink(
  { control, client, config }: Session,
  email: string,
  dropsCode: boolean,
): Promise<{ email: string; link: string; expires_at: Date }> {
  const { id, sealedTotp } = await requireMember({ client }, email);
  const dropCode = dropsCode && sealedTotp !== null ? () => removeTotp(client, id) : null;
  const made = await inTransaction(client, () =>
    makeResetLink(control, client, id, { origin: ownOrigin(config), by: null, dropCode }),
  );
  if (made instanceof ApiError) throw new DecisionError('not_allowed', made.message);
  return { email, link: made.done.link, expires_at: made.done.expiresAt };
}

async function requireMember({ client }: Pick<Session, 'client'>, email: string): Promise<MemberRow> {
  const address = Email.safeParse(email);
  const row = address.success ? await memberByEmail(client, address.data) : null;
  if (!row) throw new DecisionError('not_found', `There is no member with the email address ${email}.`);
  return row;
}

import { parseMonth } from '#db/audit/replay/statement.ts';
import type { Command } from '#db/command-line/command.ts';
import { withJson } from '#db/command-line/print.ts';
import { showTable } from '#db/command-line/table.ts';
import { run, type Session } from '#server/cli/control-session.ts';
import { readIssued } from '#server/control/billing-control.ts';
import {
  type EmailSchedule,
  listRecipients,
  listStatementEmails,
  readEmailSchedule,
  sendStatementEmails,
  setEmailSchedule,
  setRecipients,
  type StatementEmail,
} from '#server/control/statement-emails.ts';
import { DecisionError } from '#server/decide/decision.ts';

/** `daybook statement-email …` */
export function statementEmailCommands(program: Command): void {
  const email = program
    .command('statement-email')
    .description('statements and invoices by email: monthly, and on demand');

  withJson(email.command('status'))
    .description('whether statements are sent monthly, and on which day')
    .action((_options: unknown, command: Command) =>
      run(command, ({ client }) => readEmailSchedule(client), showSchedule),
    );
  withJson(email.command('on'))
    .description('send the statements of each month that ends from now on to the recipients of its account')
    .option('--day <number>', 'the day of the next month (UTC), from 1 to 28', '1')
    .action(({ day }: { day: string }, command: Command) =>
      run(command, ({ client }) => setEmailSchedule(client, { isOn: true, day: Number(day) }), showSchedule),
    );
  withJson(email.command('off'))
    .description('send no statements monthly; those that wait are dropped')
    .action((_options: unknown, command: Command) =>
      run(
        command,
        async ({ client }) =>
          setEmailSchedule(client, { isOn: false, day: (await readEmailSchedule(client)).day }),
        showSchedule,
      ),
    );
  withJson(
    email
      .command('recipients')
      .argument('<account>', "the account's name")
      .argument('[emails...]', 'all of its recipients, in place of those before'),
  )
    .description('show or set the recipients of an account; the records of a removed one are erased')
    .option('--none', 'remove all recipients')
    .action((account: string, emails: string[], { none }: { none?: true }, command: Command) =>
      run(
        command,
        (session) => recipients(session, account, none === true ? [] : emails.length === 0 ? null : emails),
        (list) => (list.length === 0 ? 'No recipients.' : list.join('\n')),
      ),
    );
  withJson(email.command('send').argument('<account>', "the account's name"))
    .description('send a statement or an invoice to the recipients of an account now, also once more')
    .option('--month <yyyy-mm>', 'the month, in UTC: its invoice, otherwise its statement')
    .option('--invoice <number>', 'the number of an invoice or a credit note, without its prefix')
    .action((account: string, options: SendOptions, command: Command) =>
      run(
        command,
        (session) => send(session, account, options),
        (count) =>
          `${count} ${count === 1 ? 'email' : 'emails'} queued. A worker with SMTP_URL sends them; see ` +
          '"statement-email list".',
      ),
    );
  withJson(email.command('list').argument('[account]', "the account's name"))
    .description('the newest emails of one account, or of all')
    .action((account: string | undefined, _options: unknown, command: Command) =>
      run(
        command,
        async ({ control, client }) =>
          listStatementEmails(client, account === undefined ? null : (await control.loadAccount(account)).id),
        showEmails,
      ),
    );
}

type SendOptions = { month?: string; invoice?: string };

async function recipients(
  { control, client }: Session,
  account: string,
  emails: readonly string[] | null,
): Promise<string[]> {
  const { id } = await control.loadAccount(account);
  return emails === null ? listRecipients(client, id) : setRecipients(client, id, emails);
}

async function send({ control, client }: Session, account: string, options: SendOptions): Promise<number> {
  const { id } = await control.loadAccount(account);
  const { month, invoice } = options;
  if (month !== undefined && invoice === undefined) {
    const { from, until: to } = parseMonth(month) ?? { from: null, until: null };
    if (from === null || to === null)
      throw new DecisionError('invalid', 'Name a month such as --month 2026-11.');
    return sendStatementEmails(client, id, { month: { from, to } });
  }
  if (invoice === undefined || month !== undefined || !/^[1-9]\d{0,8}$/.test(invoice))
    throw new DecisionError('invalid', 'Name a month such as --month 2026-11, or a number: --invoice 7.');
  const number = Number(invoice);
  const { document } = await readIssued(client, number);
  if (document.account !== id)
    throw new DecisionError('not_found', `The account has no invoice with number ${number}.`);
  return sendStatementEmails(client, id, { invoice: number });
}

const showSchedule = ({ day, on_since: since }: EmailSchedule): string =>
  since === null
    ? 'Monthly emails are off.'
    : `Monthly emails are on: sent on day ${day} of the next month (UTC), for months that end after ` +
      `${since.toISOString()}.`;

function showEmails(emails: StatementEmail[]): string {
  if (emails.length === 0) return 'No emails.';
  return showTable(
    ['CREATED', 'ACCOUNT', 'RECIPIENT', 'DOCUMENT', 'STATE', 'ATTEMPTS', 'RESULT'],
    emails.map((each) => [
      each.created_at.toISOString(),
      each.account,
      each.email,
      each.month ?? `number ${each.invoice}`,
      each.state,
      String(each.attempts),
      each.fault ?? (each.status === null ? '' : String(each.status)),
    ]),
  );
}
